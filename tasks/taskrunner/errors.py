"""The errors of the task runner; each kind has the exit code that every command of the repository gives it."""


class RunnerError(Exception):
    """A task could not be run; the message says why and what to do."""

    exit_code = 1


class UsageProblem(RunnerError):
    """What was asked for does not exist or does not make sense."""

    exit_code = 2


class ComponentMissing(RunnerError):
    """Something that the task needs is not on this machine."""

    exit_code = 3
