"""What tests of several folders share."""

import gc
import importlib
import inspect
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import texts
from tests.fake_nvml import fake_nvml
from tests.fork_server import ForkServer

import trt_workbench  # noqa: F401 - first: it sets OpenCV's limit on images, which OpenCV reads when it is loaded

pytest_plugins = ("tests.tiers",)
DOUBLES = Path(__file__).parent / "doubles"
# Where SIGCHLD is ignored, each process that a test starts ends with the exit code 0.
_USUAL_SIGNALS = {
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGCHLD: signal.SIG_DFL,
}
# What a user or a task has set for commands. Git sets its own for a hook, such as one that runs the tests.
_OF_THE_USER = {
    *("PIXI_PROJECT_ROOT", "PIXI_ENVIRONMENT_NAME", "INIT_CWD", "FORCE_COLOR"),
    *("TRTW_ROOT", "TRTW_SERVER_TOKEN", "TRTW_STACK", "TRTW_TASKS_RUN", "TRTW_TMP"),
}
_NEEDS_TORCH = r'pytest\.importorskip\("torch"\)'


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--no-skips` is for an environment that has all that its tests ask for."""
    parser.addoption("--no-skips", action="store_true", help="a test that is skipped fails the run")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that skipped what it may not."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("no_skips") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_configure(config: pytest.Config) -> None:
    """Let signals reach tests and what they start: a shell's background job, and its children, ignore Ctrl-C.

    SIGHUP stays ignored under `nohup`; tests that need it switch it on. Messages name commands in the words of how the
    user started us; tests expect those of pip, wherever they run.
    """
    for name in [name for name in os.environ if name in _OF_THE_USER or name.startswith("GIT_")]:
        del os.environ[name]
    # Which texts a run compares depends on what is installed: PyTorch, a GPU.
    config.option.warn_unused_snapshots = True
    # Tests run in several processes, whose threads wait for each other. Libraries read it when they are loaded.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # else PyTorch's threads spin while they wait
    # Else its compiler tries every set of vector instructions by a program of its own.
    os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "0")
    # A machine may be busy: how long an example takes says nothing about the code. A checkout may be read-only: failed
    # examples are kept nowhere. (On GPU machines Hypothesis may be absent.)
    if config.pluginmanager.hasplugin("hypothesispytest"):
        from hypothesis import settings

        settings.register_profile("unhurried", deadline=None, database=None)
        settings.load_profile("unhurried")
    for number, handler in _USUAL_SIGNALS.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def pytest_collection() -> None:
    """Look for no garbage among the tests that come: there is none."""
    gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs PyTorch, so that `-m torch` runs it alone where PyTorch is.

    Files with a long test come first: at the end, one process would wait for what the other has begun.
    """
    for item in items:
        if isinstance(item, pytest.Function) and ("llm_folder" in item.fixturenames or _asks_for_torch(item.function)):
            item.add_marker(pytest.mark.torch)
    long = {item.path for item in items if item.get_closest_marker("long")}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let a module's generators draw the same numbers in each of its tests, whichever ran before."""
    if isinstance(item, pytest.Function):
        for generator in _generators(item.module.__name__):
            bits = generator.bit_generator
            bits.state = type(bits)(bits.seed_seq).state


@cache
def _generators(module: str) -> list[Any]:
    import numpy as np

    return [value for value in vars(sys.modules[module]).values() if isinstance(value, np.random.Generator)]


def pytest_collection_finish() -> None:
    """Look for no garbage among what is there to the end: modules, and ten thousand tests."""
    gc.enable()
    gc.collect()
    gc.freeze()


@cache
def _asks_for_torch(test: Callable[..., None]) -> bool:
    whole, in_places = _needs_torch(test.__module__)
    return whole or (in_places and bool(re.search(_NEEDS_TORCH, inspect.getsource(test))))


@cache
def _needs_torch(module: str) -> tuple[bool, bool]:
    """Return whether all tests of the module do, and whether anything in it does."""
    source = inspect.getsource(sys.modules[module])
    return bool(re.search(rf"^(\w+ = )?{_NEEDS_TORCH}", source, re.MULTILINE)), bool(re.search(_NEEDS_TORCH, source))


@pytest.fixture(scope="session", autouse=True)
def _unhindered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Wait for no disk, and for a file's stamp to settle as long as this machine's clock needs, not any file system.

    Nothing is written to the repository: it may be read-only, and another run must not find what this one leaves.
    A command that a slow machine holds up does not say so between its lines.
    Git is asked once for the revision, which two of its processes tell and every run directory has.
    """
    from trt_workbench.console import progress
    from trt_workbench.core import environment, hashing

    coarse = 5  # CLOCK_REALTIME_COARSE of Linux, by which it dates files
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRTW_TMP", str(tmp_path_factory.mktemp("out")))
        patch.setattr(hashing, "_TICK_NS", int(1e9 * time.clock_getres(coarse)))
        patch.setattr(progress, "EVERY_S", 1e6)
        patch.setattr(os, "fsync", lambda _: None)  # what only a loss of power would show
        patch.setattr(environment, "git_revision", cache(environment.git_revision))
        yield


@pytest.fixture(autouse=True)
def _texts(request: pytest.FixtureRequest) -> Iterator[None]:
    with texts.running(request):
        yield


@pytest.fixture
def text_snapshot(request: pytest.FixtureRequest) -> Any:
    """What `tests.texts.held` compares with."""
    extension = texts.extension()
    return request.getfixturevalue("snapshot").use_extension(extension)


@pytest.fixture(scope="session")
def fork_server(tmp_path_factory: pytest.TempPathFactory) -> ForkServer:
    """Starts workers, and programs in which tests interrupt commands: imports would take a second each time."""
    return ForkServer(dict(os.environ), tmp_path_factory.mktemp("python"))


@pytest.fixture
def in_a_terminal() -> Iterator[None]:
    """Let SIGHUP reach this process: the tests may run under `nohup`, which must hold for pytest between such tests."""
    earlier = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, earlier)


@pytest.fixture
def forked_python(fork_server: ForkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the starts of this interpreter be forks, such as those of a stack."""
    monkeypatch.setattr(sys, "executable", fork_server.executable)


@pytest.fixture(scope="session")
def processes() -> Any:
    """Starts functions of tests in processes that fork from one which has imported what they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "trt_workbench.engine.builder"])
    return context


@pytest.fixture(scope="session")
def forking(fork_server: ForkServer) -> SimpleNamespace:
    """What workers are started by in place of `subprocess`; `own_processes` undoes it."""
    return SimpleNamespace(**{**vars(subprocess), "Popen": fork_server.popen})


@pytest.fixture
def own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start workers as users' commands do: each in an interpreter of its own."""
    from trt_workbench.core import workers

    monkeypatch.setattr(workers, "subprocess", subprocess)


@pytest.fixture
def blank_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the plots of reports blank, without a layout, once all is in them: it takes longer than most commands."""
    monkeypatch.setattr("trt_workbench.report.page.written", lambda _: '<svg class="plot"></svg>\n')
    monkeypatch.setattr("matplotlib.figure.Figure.draw_without_rendering", lambda _: None)


@pytest.fixture
def doubled_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Put the double of the native core in its place, with an output folder of the test's own."""
    from trt_workbench.engine import native

    monkeypatch.setenv("TRTW_TMP", str(tmp_path / "out"))
    monkeypatch.syspath_prepend(DOUBLES)
    for name in [name for name in sys.modules if name.split(".")[0] == native.MODULE]:
        monkeypatch.delitem(sys.modules, name)
    native.native.cache_clear()
    yield
    # First: a test that hid the module from itself would bring the double back when its patches end.
    monkeypatch.undo()
    if str(getattr(sys.modules.get(native.MODULE), "__file__", "")).startswith(str(DOUBLES)):
        del sys.modules[native.MODULE]
    native.native.cache_clear()


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let NVML report GPUs: `gpus("9.0", cuda="12.8")`; no argument leaves a driver without GPUs."""

    def set_up(*capabilities: str, **more: Any) -> None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(*capabilities, **more))

    return set_up


@pytest.fixture
def started_by(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Let the process look as if pixi or tasks/run had started it: `started_by("pixi", "default", "eval-coco")`."""

    def set_up(launcher: str, environment: str, *argv: str) -> None:
        monkeypatch.setenv("PIXI_PROJECT_ROOT", str(Path(__file__).parents[1]))
        monkeypatch.setenv("PIXI_ENVIRONMENT_NAME", environment)
        if launcher == "tasks/run":
            monkeypatch.setenv("TRTW_TASKS_RUN", "1")
        monkeypatch.setattr(sys, "argv", [f"/somewhere/bin/{argv[0]}", *argv[1:]] if argv else ["pytest"])

    return set_up


@pytest.fixture
def outside_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Let a package look installed, here and in worker processes, as its metadata on the import path make it.

    `outside_package({"trt_workbench.backends": {"mine": "my_module:Mine"}}, folder_of_my_module, name="my-package")`
    """

    added: list[str] = []

    def install(entry_points: Mapping[str, Mapping[str, str]], *folders: Path, name: str = "addon") -> None:
        metadata = tmp_path / f"site-{name}" / f"{name.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        with (metadata / "entry_points.txt").open("w") as file:
            for group, found in entry_points.items():
                file.writelines([f"[{group}]\n", *(f"{key} = {value}\n" for key, value in found.items())])
        for folder in (*folders, metadata.parent, Path(__file__).parents[1]):
            added.append(str(folder))
            sys.path.insert(0, added[-1])  # not monkeypatch's way: it would take away what libraries add meanwhile
            monkeypatch.setenv("PYTHONPATH", added[-1], prepend=os.pathsep)
        importlib.invalidate_caches()
        for value in [value for found in entry_points.values() for value in found.values()]:
            if not value.startswith("tests."):  # of the same name in another folder
                monkeypatch.delitem(sys.modules, value.split(":")[0], raising=False)

    yield install
    for folder in added:
        sys.path.remove(folder)


@pytest.fixture
def outside_backend(outside_package: Callable[..., None]) -> Callable[..., None]:
    """Add a backend by an installed package: `outside_backend("mine", "my_module:Mine", folder_of_my_module)`."""

    def add(name: str, where: str, *folders: Path) -> None:
        outside_package({"trt_workbench.backends": {name: where}}, *folders, name=f"with-{name}")

    return add


@pytest.fixture
def llm_output(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """An output folder that tests of language models share, and in it their exports."""
    monkeypatch.setenv("TRTW_TMP", str(tmp_path_factory.getbasetemp() / "llm"))


LLM_VOCABULARY, LLM_POSITIONS = 300, 64
_SIZE = {"vocab_size": LLM_VOCABULARY, "bos_token_id": 0, "eos_token_id": 0}
_LLAMA = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
_LLAMA |= {"max_position_embeddings": LLM_POSITIONS, **_SIZE}
_GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": LLM_POSITIONS, **_SIZE}
_OPT = {"hidden_size": 32, "ffn_dim": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "word_embed_proj_dim": 32}
LLM_FAMILIES: dict[str, dict[str, Any]] = {
    "gpt2": _GPT2,
    "llama": {**_LLAMA, "num_key_value_heads": 2},  # grouped-query attention
    "qwen2": {**_LLAMA, "num_key_value_heads": 1},
    "opt": {**_OPT, "max_position_embeddings": LLM_POSITIONS, "pad_token_id": 1, **_SIZE},
    "mistral": {**_LLAMA, "num_key_value_heads": 2, "sliding_window": 8},
    "cohere": {
        **_LLAMA,
        "num_key_value_heads": 2,
        "pad_token_id": 1,
        "logit_scale": 1.0,
    },  # rotary by repeat_interleave
    # softcapped scores, which PyTorch's fused attention does not have
    "gemma2": {**_LLAMA, "num_key_value_heads": 2, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 8},
    "mixtral": {**_LLAMA, "num_key_value_heads": 2, "num_local_experts": 4, "num_experts_per_tok": 2},
    "gpt_oss": {**_LLAMA, "num_key_value_heads": 2, "head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}
    | {"sliding_window": 8},  # experts with biases and transposed weights, attention with sinks
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, **_SIZE},  # positions by ALiBi alone
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, **_SIZE},  # no keys and values
    # builds its local masks by itself, which a static cache does not go with
    "gpt_neo": {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "attention_types": [[["global", "local"], 1]]}
    | {"window_size": 8, "max_position_embeddings": LLM_POSITIONS, **_SIZE},
}


@pytest.fixture(scope="session")
def llm_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that makes a small random language model with a tokenizer, once for each family."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=LLM_VOCABULARY, special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    text = Path(__file__).parents[1] / "LICENSE"  # which does not change with the tests
    tokenizer.train_from_iterator([text.read_text(encoding="utf-8")], trainer)

    @cache
    def make(family: str) -> Path:
        import torch
        from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast

        from trt_workbench.backends.torch.llm_model import quiet_transformers

        folder = tmp_path_factory.mktemp(family)
        torch.set_num_threads(1)  # models this small only lose time to further threads
        torch.manual_seed(0)
        with quiet_transformers():
            config = AutoConfig.for_model(family, **LLM_FAMILIES[family])
            model = AutoModelForCausalLM.from_config(config)
            # weights large enough for the logits to differ between tokens
            with torch.no_grad():
                for weight in model.parameters():
                    if weight.ndim > 1:
                        weight.normal_(0, 0.2)
            model.save_pretrained(folder)
        wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|end|>", eos_token="<|end|>")
        wrapped.save_pretrained(folder)
        return folder

    return make
