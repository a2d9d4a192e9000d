"""From an experiment's file to what has to be asked; every mistake is found before anything is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from run_files import Project, toml

from hatevolution.errors import ConfigError, DataError
from hatevolution.runner.plan import RunPlan, make_plan

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.dataset("one")
    made.dataset("two")
    made.model("a", adapter="scripted")
    made.model("b", adapter="scripted")
    return made


def plan(project: Project, **options: Any) -> RunPlan:
    given: dict[str, Any] = {"store": None, "data": None, "models": None, "datasets": None, **options}
    return make_plan(str(project.experiment), **given)


def test_models_and_sets_keep_the_experiments_order(project: Project) -> None:
    made = plan(project, models=["b", "a"], datasets=["two", "one"])
    assert [model.config.name for model in made.models] == ["a", "b"]
    assert [dataset.record.name for dataset in made.datasets] == ["one", "two"]
    assert made.store.name == "x.db"


def test_nothing_is_read_of_a_set_that_is_not_chosen(project: Project) -> None:
    (project.folder / "two.csv").unlink()
    assert len(plan(project, datasets=["one"]).datasets) == 1
    with pytest.raises(DataError, match=r"two\.csv"):
        plan(project)


def test_the_record_of_the_configuration_is_plain_and_names_everything(project: Project) -> None:
    import msgspec

    said = plan(project).configuration()
    assert msgspec.json.decode(msgspec.json.encode(said))["experiment"]["name"] == "x"
    assert [entry["name"] for entry in said["models"]] == ["a", "b"]
    assert [entry["name"] for entry in said["datasets"]] == ["one", "two"]
    assert all(len(file["sha256"]) == 64 for entry in said["datasets"] for file in entry["files"])


def test_a_name_that_occurs_twice_is_refused(project: Project) -> None:
    (project.folder / "again.model.toml").write_text((project.folder / "a.model.toml").read_text())
    path = project.experiment
    path.write_text(path.read_text().replace('"./a.model.toml"', '"./a.model.toml", "./again.model.toml"'))
    with pytest.raises(ConfigError, match="the model 'a' occurs twice"):
        make_plan(str(path), store=None, data=None, models=None, datasets=None)


@pytest.mark.parametrize("url", ["http://user:word@host/v1", "https://:word@host", "http://user@host:1/v1"])
def test_a_password_in_an_address_is_refused_and_not_repeated(project: Project, url: str) -> None:
    project.model("c", endpoint={"base_urls": [url]})
    with pytest.raises(ConfigError, match="api_key_env") as caught:
        plan(project)
    assert "word@" not in str(caught.value)


def test_a_data_folder_that_is_not_there_is_named(project: Project) -> None:
    folder = project.folder / "no where"
    with pytest.raises(ConfigError) as caught:
        plan(project, data=str(folder))
    assert f"folder {folder} does not exist" in str(caught.value)
    assert f"`hatevolution data fetch --data '{folder}'`" in str(caught.value)


def test_sets_without_files_are_named_with_the_way_to_do_without_them(project: Project) -> None:
    project.dataset("more", count=2)
    project.dataset("most", count=2)
    (project.folder / "more.csv").unlink()
    (project.folder / "most.csv").unlink()
    with pytest.raises(DataError) as caught:
        plan(project)
    assert str(caught.value) == (
        f"The data set more needs {project.folder / 'more.csv'}, and there is no such file (--except more,most leaves "
        f"out what is not there, --datasets names what is to be asked)"
    )
    plan(project, without=["more", "most"])
    with pytest.raises(DataError, match=r"there is no such file\.$"):
        plan(project, datasets=["more"])


def test_an_experiments_own_data_folder_is_relative_to_its_file(project: Project) -> None:
    path = project.experiment
    path.write_text('data = "files"\n' + path.read_text())
    with pytest.raises(ConfigError, match=str(project.folder / "files")):
        make_plan(str(path), store=None, data=None, models=None, datasets=None)
    (project.folder / "files").mkdir()
    make_plan(str(path), store=None, data=None, models=None, datasets=None)


def test_an_experiment_names_at_least_one_model_and_one_set(project: Project) -> None:
    path = project.folder / "y.toml"
    path.write_text(toml({"name": "y", "models": [], "datasets": ["./one.set.toml"]}))
    with pytest.raises(ConfigError, match="models"):
        make_plan(str(path), store=None, data=None, models=None, datasets=None)
