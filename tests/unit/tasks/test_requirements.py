import pytest

from taskrunner.errors import UsageProblem
from taskrunner.manifest import Environment
from taskrunner.requirements import check_python, conda_only, local_projects, pip_calls


def environment(pypi=None, conda=None, options=None):
    return Environment(
        name="env",
        platforms=(),
        tasks={},
        conda=conda or {},
        pypi=pypi or {},
        pypi_options=options or {},
        scripts=(),
        variables={},
    )


def arguments(spec, root, name="pkg"):
    (call,) = pip_calls(environment({name: spec}), root)
    return list(call.arguments)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("*", ["pkg"]),
        (">=1,<2", ["pkg>=1,<2"]),
        ({"version": "==1.2", "extras": ["a", "b"]}, ["pkg[a,b]==1.2"]),
        ({"url": "https://example.org/p.whl"}, ["pkg @ https://example.org/p.whl"]),
        ({"git": "https://example.org/p", "rev": "abc"}, ["pkg @ git+https://example.org/p@abc"]),
        (
            {"git": "https://example.org/p", "tag": "v1", "subdirectory": "py"},
            ["pkg @ git+https://example.org/p@v1#subdirectory=py"],
        ),
    ],
)
def test_forms(spec, expected, tmp_path):
    assert arguments(spec, tmp_path) == expected


def test_paths_are_relative_to_the_manifest(tmp_path):
    assert arguments({"path": "python", "editable": True, "extras": ["gpu"]}, tmp_path) == [
        "--editable",
        f"{tmp_path / 'python'}[gpu]",
    ]
    assert arguments({"path": "cpp"}, tmp_path) == [str(tmp_path / "cpp")]


def test_an_index_of_its_own_is_the_only_place_for_that_package(tmp_path):
    own = {"version": "==10", "index": "https://index.example"}
    first, last = pip_calls(environment({"libs": own, "other": "*"}), tmp_path)
    assert first.arguments == ("--index-url", "https://index.example", "--no-deps", "libs==10")
    assert last.arguments == ("libs==10", "other")


def test_index_options(tmp_path):
    options = {
        "index-url": "https://a.example",
        "extra-index-urls": ["https://b.example"],
        "find-links": [{"path": "wheels"}, {"url": "https://c.example"}],
    }
    (call,) = pip_calls(environment({"pkg": "*"}, options=options), tmp_path)
    assert list(call.arguments) == [
        *("--index-url", "https://a.example", "--extra-index-url", "https://b.example"),
        *("--find-links", str(tmp_path / "wheels"), "--find-links", "https://c.example", "pkg"),
    ]


def test_an_environment_without_requirements_needs_no_pip(tmp_path):
    assert pip_calls(environment(), tmp_path) == []


@pytest.mark.parametrize(
    ("spec", "message"), [("1.2", r"must say how its version '1\.2' is meant"), ({"markers": "x"}, "markers of")]
)
def test_forms_that_cannot_be_honoured(spec, message, tmp_path):
    with pytest.raises(UsageProblem, match=message):
        arguments(spec, tmp_path)


def test_conda_only_leaves_out_what_a_virtual_environment_has():
    assert conda_only(environment(conda={"python": "*", "pip": "*", "cuda-nvcc": "*", "cmake": "*"})) == [
        "cmake",
        "cuda-nvcc",
    ]


def test_python_is_held_against_the_manifest():
    check_python(environment(conda={"python": ">=3.11,<3.14"}), (3, 13, 5))
    check_python(environment(), (3, 99, 0))
    with pytest.raises(UsageProblem, match=r"needs Python >=3\.11,<3\.14, and this is 3\.14\.0"):
        check_python(environment(conda={"python": {"version": ">=3.11,<3.14"}}), (3, 14, 0))


def test_local_projects_see_what_decides_the_install_and_nothing_else(tmp_path):
    project = tmp_path / "python" / "pyproject.toml"
    project.parent.mkdir()
    spec = environment({"pkg": {"path": "python"}, "other": "*"})

    def write(dependency, setting):
        project.write_text(f'[project]\nname = "pkg"\ndependencies = ["{dependency}"]\n[tool.x]\ny = "{setting}"\n')
        return local_projects(spec, tmp_path)

    assert write("numpy", "1") == write("numpy", "2")
    assert write("numpy", "1") != write("scipy", "1")
