"""eval-llm: a language model on every backend against PyTorch in fp32: its perplexity, and what it generates."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trt_workbench.backends.language import LogitsModel, PromptModel
from trt_workbench.backends.registry import check_backend_options
from trt_workbench.backends.torch.llm_tokenizer import load_tokenizer, other_tokens
from trt_workbench.core.counts import counted
from trt_workbench.core.directory import destination_of
from trt_workbench.core.documents import json_values, read_lines
from trt_workbench.core.errors import UsageProblem
from trt_workbench.core.files import require_file
from trt_workbench.core.hashing import hash_file
from trt_workbench.core.input_files import read_text
from trt_workbench.core.interruptible import deferred_interrupts
from trt_workbench.core.shard import Shard
from trt_workbench.core.shard_workers import DONE, TAKEN, open_journal
from trt_workbench.core.spread import LEFT_OUT
from trt_workbench.core.verification import Mark
from trt_workbench.core.work import taking
from trt_workbench.llm.document import RecordWriter, write_metrics
from trt_workbench.llm.generation_check import CACHED, Generation, check_generation, compare_generation
from trt_workbench.llm.opening import ModelSource, check_graphs, check_llm_options, check_ranges, open_logits
from trt_workbench.llm.outcome import LlmOutcome, Part, ScoredBackend, metrics_of, rows_of
from trt_workbench.llm.scores import TokenScores, score_logits, score_prompts
from trt_workbench.llm.settings import REFERENCE, BackendChoice, LlmSettings
from trt_workbench.llm.sharding import ran, what_decides, write_shard
from trt_workbench.llm.text import (
    Bos,
    Window,
    batches,
    choose_recipe,
    cut_windows,
    leading,
    model_input,
    scored_positions,
)
from trt_workbench.model.llm_directory import LlmDirectory, examine_llm_directory
from trt_workbench.model.opsets import DEFAULT_OPSET
from trt_workbench.verify import refuse_wrong

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class LlmRequest(LlmSettings):
    """The user's request.

    Attributes:
        model: folder of the model.
        text: UTF-8 text file.
        candidate: makes an exported graph in another format, for backends that run graphs as they are.
        shard: the block of the windows' batches to score; None for all.
    """

    model: Path
    text: Path
    candidate: Callable[[Path, str], Path] | None = None
    shard: Shard | None = None


@dataclass
class _Candidate:
    """A backend while it is evaluated."""

    choice: BackendChoice
    model: LogitsModel
    is_reference: bool
    verification: list[Mark]
    parts: list[TokenScores] = field(default_factory=list)
    overflow: str = ""

    def scored(self) -> ScoredBackend:
        """Return what was found."""
        return ScoredBackend(self.choice, self.parts, self.overflow, self.verification, dict(self.model.provenance))


class LlmEvaluation(AbstractContextManager["LlmEvaluation"]):
    """A checked request: the text is tokenised and the recipe is known. A context manager.

    Attributes:
        request: what was asked.
        directory: the model.
        recipe: what decides the perplexity.
        notes: what the user should know about this evaluation, in sentences.
    """

    def __init__(self, request: LlmRequest, say: Callable[[str], None] = lambda _: None) -> None:
        """Check the folder, the text and the recipe.

        Args:
            request: what was asked.
            say: called with the next step, such as an export.

        Raises:
            UsageProblem: the model, text or an option cannot be used, or they do not fit each other.
            ComponentMissing: transformers is missing.
        """
        check_graphs(request.graphs, request.backends)
        check_backend_options(list(dict.fromkeys(one.name for one in (REFERENCE, *request.backends))), request.options)
        for name, options in request.options.items():
            check_llm_options(name, options)
        check_ranges(request.backends, request.calibration, cached=CACHED in request.modes)
        if request.shard and request.modes != ("perplexity",):
            raise UsageProblem("Shards divide the windows of the perplexity; leave out other --modes.")
        self.request = request
        self.directory: LlmDirectory = examine_llm_directory(request.model)
        self._text = _read_text(request.text)
        tokenizer = load_tokenizer(self.directory)
        encoded = tokenizer.encode(self._text)
        self.notes: list[str] = [note] if (note := other_tokens(self.directory, tokenizer, self._text, encoded)) else []
        self._all_tokens = len(encoded.ids)
        self._prompt_tokens = encoded.ids[: request.limit]
        if self.directory.vocabulary and encoded.ids.size and encoded.ids.max() >= self.directory.vocabulary:
            raise UsageProblem(
                f"The tokenizer gives token {encoded.ids.max()}, but the model has "
                f"{counted(self.directory.vocabulary, 'token')}; they do not match: {self.directory.path}"
            )
        bos: Bos = request.bos if request.bos != "auto" else "window" if tokenizer.adds_bos else "none"
        own = leading(encoded.ids, tokenizer.bos_id) if bos == "window" else 0
        self._tokens = encoded.ids[own:][: request.limit]
        self._byte_counts = None if encoded.byte_counts is None else encoded.byte_counts[own:]
        if own:
            self._note(f"The text begins with the begin-of-text token: the window's own replaces it ({own}).")
        self.recipe = choose_recipe(
            request.window, request.stride, bos, tokenizer.bos_id, self.directory.positions, len(self._tokens)
        )
        if request.generating:
            check_generation(request, self.directory.positions, len(self._prompt_tokens))
        self._source = ModelSource(
            self.directory,
            request.device,
            DEFAULT_OPSET,
            request.threads,
            say,
            request.graphs,
            request.options,
            request.candidate,
            self._note,
        )
        self._open = ExitStack()

    def __exit__(self, *_: object) -> None:
        """Release the models."""
        self._open.close()

    def run(
        self,
        folder: Path,
        on_tokens: Progress | None = None,
        on_generation: Progress | None = None,
        *,
        skipped: Collection[int] = (),
        journal: Path | None = None,
        earlier: Callable[[Mapping[str, Any]], Sequence[Path]] = lambda _: (),
    ) -> LlmOutcome:
        """Evaluate and write the run's files into `folder`. Once per object.

        Args:
            folder: an existing folder, such as the staging folder of a run directory.
            on_tokens: called with the tokens of the text that are done and their total.
            on_generation: called with the backends and modes of generation that are done and their total.
            skipped: places in the shard's forward passes that are left out, because worker processes die of them.
            journal: file that says which are begun and done, for `open_journal`; None for none.
            earlier: returns the unfinished runs whose windows are taken over, newest first, given what identifies them.

        A backend that cannot generate is a row of `generation` that says why, as long as there is any other result.

        Raises:
            UsageProblem: a model is not available on a backend, or a file cannot be written.
            ComponentMissing: a backend cannot serve here.
            CheckFailed: an exported graph does not compute what PyTorch computes, or an engine is known to be wrong.
            DeviceFailure: a device failed or is out of memory.
            KeyboardInterrupt: interrupted before there was any result.
        """
        interrupted: Part | None = None
        candidates: list[_Candidate] = []
        generation = Generation()
        records = RecordWriter(folder / "records.jsonl")
        if "perplexity" in self.request.modes:
            candidates = self._candidates()
            asked = {
                **what_decides(self.request),
                "ran": json_values([ran(one.scored()) for one in candidates], str),
                "shard": self.request.shard and str(self.request.shard),
            }
            for left in earlier(asked)[:1]:
                with taking([left]):
                    self._take_over(left, candidates, records)
            interrupted = self._score(candidates, records, on_tokens, skipped, journal)
        scored = [candidate.scored() for candidate in candidates]
        self._open.close()
        if self.request.shard:
            with deferred_interrupts():
                return write_shard(folder, self.request, scored, self.facts(), self._groups(), self.notes)
        rows = rows_of(scored, self.request.max_ppl_increase)
        if self.request.generating and not interrupted:
            interrupted = self._generate(generation, on_generation, destination_of(folder))
        if generation.error and not (rows or any(row["agreement"] for row in generation.rows)):
            raise generation.error
        metrics = metrics_of(self.facts(), rows, generation.rows, interrupted, self.notes)
        write_metrics(folder / "metrics.json", metrics)
        return LlmOutcome(metrics["status"], metrics, generation.error)

    def _note(self, text: str) -> None:
        """Keep a note once: several backends may load the same checkpoint."""
        if text not in self.notes:
            self.notes.append(text)

    def _candidates(self) -> list[_Candidate]:
        """Open the reference and the backends; the first is the reference."""
        candidates = []
        for choice in dict.fromkeys((REFERENCE, *self.request.backends)):
            model = open_logits(choice, self._source, self.request.batch, self.recipe.window)
            self._open.callback(model.close)
            marks = refuse_wrong(model.provenance, allow_unverified=self.request.allow_unverified)
            candidates.append(_Candidate(choice, model, choice == REFERENCE, marks))
        return candidates

    def _score(
        self,
        candidates: Sequence[_Candidate],
        records: RecordWriter,
        on_tokens: Progress | None,
        skipped: Collection[int],
        journal: Path | None,
    ) -> Part | None:
        """Score the windows on every backend; return "perplexity" if that was interrupted."""
        groups = self._groups()
        own = list(enumerate(groups[self._block(groups)]))
        if left := [group for place, group in own if place in skipped]:
            places = ", ".join(f"{group[0].begin} to {group[-1].end - 1}" for group in left)
            self._note(f"{LEFT_OUT} {counted(len(left), 'batch')}: tokens {places}.")
        kept = [group for place, group in own if place not in skipped]
        noted = open_journal(journal, len(kept))
        try:
            for place, group in enumerate(kept):
                if place < len(candidates[0].parts):
                    continue  # of an earlier run
                noted[place] = TAKEN
                self._score_batch(candidates, group, records)
                if on_tokens:
                    on_tokens(group[-1].end, len(self._tokens))
                noted[place] = DONE
        except KeyboardInterrupt:
            if not candidates[0].parts:
                raise
            return "perplexity"
        return None

    def _take_over(self, left: Path, candidates: Sequence[_Candidate], records: RecordWriter) -> None:
        """Take the forward passes that an unfinished run has of every backend, up to one that is not finite."""
        lines = read_lines(left / "records.jsonl", dict[str, Any], growing=True)
        passes = zip(*(iter(lines),) * len(candidates), strict=False)  # what is incomplete is done again
        finite = itertools.takewhile(lambda found: all(None not in line.values() for line in found), passes)
        for found in finite:
            for candidate, line in zip(candidates, found, strict=True):
                candidate.parts.append(TokenScores(**{one.name: line[one.name] for one in fields(TokenScores)}))
            records.again(found)

    def _generate(self, found: Generation, on_progress: Progress | None, evidence: Path) -> Part | None:
        """Compare what the backends generate; return "generation" if that was interrupted."""
        try:
            compare_generation(self.request, self._source, self._prompt_tokens, found, on_progress, evidence)
        except KeyboardInterrupt:
            if "perplexity" not in self.request.modes and not found.rows:
                raise
            return "generation"
        return None

    def _score_batch(self, candidates: Sequence[_Candidate], part: Sequence[Window], records: RecordWriter) -> None:
        """Score windows on every backend."""
        tokens = model_input(self._tokens, part, self.recipe)
        targets = np.concatenate([self._tokens[window.scored : window.end] for window in part])
        picks = [scored_positions(window, self.recipe) for window in part]
        found: list[tuple[_Candidate, TokenScores]] = []
        reference: NDArray[np.float32] | None = None
        for candidate in candidates:
            if isinstance(candidate.model, PromptModel) and reference is not None:
                found.append((candidate, _of_prompts(candidate.model, tokens, picks, reference, targets)))
                continue
            logits = candidate.model.logits(tokens)
            chosen = np.concatenate([row[pick] for row, pick in zip(logits, picks, strict=True)])
            if reference is None:
                reference = chosen
            scores = score_logits(reference, None if candidate.is_reference else chosen, targets)
            if not candidate.overflow and (np.isfinite(reference) > np.isfinite(chosen)).any():
                candidate.overflow = candidate.model.explained(tokens)
            found.append((candidate, scores))
        for candidate, scores in found:  # all or none: backends are compared on the same tokens
            candidate.parts.append(scores)
            records.window(candidate.choice, part, tokens.shape, scores)

    def _groups(self) -> list[list[Window]]:
        """Return the windows of each forward pass over the whole text."""
        return list(batches(cut_windows(len(self._tokens), self.recipe), self.request.batch))

    def _block(self, groups: Sequence[Sequence[Window]]) -> slice:
        block = (self.request.shard or Shard(0, 1)).block(len(groups))
        return slice(block.start, block.stop)

    def facts(self) -> dict[str, Any]:
        """What was asked and chosen: what `metrics_of` needs besides the scores."""
        counts, windows = self._byte_counts, cut_windows(len(self._tokens), self.recipe)
        return {
            "model": {
                "path": str(self.request.model.absolute()),
                "model_type": self.directory.model_type,
                "sha256": self.directory.sha256,
                "tokenizer_sha256": self.directory.tokenizer_sha256,
                "positions": self.directory.positions,
            },
            "text": {
                "path": str(self.request.text.absolute()),
                "sha256": hash_file(self.request.text),
                "bytes": len(self._text.encode()),
                "tokens": self._all_tokens,
                "tokens_used": len(self._tokens),
            },
            "recipe": {
                "window": self.recipe.window,
                "stride": self.recipe.stride,
                "bos": self.recipe.bos,
                "bos_id": self.recipe.bos_id,
                "text": self.recipe.describe(),
            },
            "max_ppl_increase": self.request.max_ppl_increase,
            "allow_unverified": self.request.allow_unverified,
            "options": {name: dict(options) for name, options in self.request.options.items()},
            "batch": self.request.batch,
            "scored_bytes": None if counts is None else sum(int(counts[one.scored : one.end].sum()) for one in windows),
        }


def _of_prompts(
    model: PromptModel,
    tokens: NDArray[np.int64],
    picks: Sequence[slice],
    reference: NDArray[np.float32],
    targets: NDArray[np.int64],
) -> TokenScores:
    """Score a model that gives log-probabilities: those of a token stand at its own place, one behind its logits."""
    logprobs, likeliest = (
        np.concatenate([row[pick.start + 1 : pick.stop + 1] for row, pick in zip(rows, picks, strict=True)])
        for rows in model.prompt_scores(tokens)
    )
    return score_prompts(reference, logprobs, likeliest, targets)


def _read_text(path: Path) -> str:
    require_file("text file", path)
    try:
        text = read_text(path)
    except UnicodeDecodeError as error:
        raise UsageProblem(f"The text is not a file of UTF-8 text ({error}): {path}") from error
    if not text.strip():
        raise UsageProblem(f"The text is empty: {path}")
    return text
