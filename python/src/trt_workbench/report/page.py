"""Self-contained HTML pages from the templates of this package."""

from __future__ import annotations

from typing import Any

from trt_workbench import __version__


def render(template: str, **values: Any) -> str:
    """Render a template with everything escaped; an undefined name is an error, never an empty place.

    Args:
        template: a file name in `report/templates`.
        values: what the template names.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("trt_workbench.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = _figure
    return environment.get_template(template).render(version=__version__, **values)


def _figure(value: float | None, digits: int = 4) -> str:
    """Format a figure, or a dash where there is none."""
    return "\N{EN DASH}" if value is None else f"{value:.{digits}f}"
