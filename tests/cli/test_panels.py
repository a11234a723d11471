"""The help of commands, which fits a screen, and ``--set NAME=VALUE``, which stands for seldom used options."""

from typing import Any

import pytest
import typer

from anachron.cli.commands import BEHIND_SET, COMMON, MODEL, SELDOM, App, panel_of, spelled
from anachron.cli.main import command_tree, run_command
from anachron.core.errors import ConfigError

SCREEN = 80  # lines, of 80 columns


def leaves(group: Any, before: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found = []
    for name, command in group.commands.items():
        words = (*before, name)
        found += leaves(command, words) if hasattr(command, "commands") else [(words, command)]
    return found


COMMANDS = leaves(command_tree())


def settings(command: Any) -> list[Any]:
    return [one for one in command.params if panel_of(one) in BEHIND_SET]


@pytest.mark.parametrize(("words", "command"), COMMANDS, ids=[" ".join(words) for words, _ in COMMANDS])
def test_help_fits_a_screen_and_names_every_option(words: tuple[str, ...], command: Any, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    options = [one for one in command.params if one.param_type_name == "option"]
    assert sum(panel_of(one) in (COMMON, MODEL) for one in options) <= 25
    assert run_command([*words, "--help"], debug=False) == 0
    shown = capsys.readouterr().out
    assert len(shown.splitlines()) <= SCREEN
    for one in options:
        assert (one.name if panel_of(one) in BEHIND_SET else one.opts[0]) in shown
    assert run_command([*words, "--help-all"], debug=False) == 0
    everything = "".join(capsys.readouterr().out.split())
    for one in command.params:
        assert "".join(one.help.split()) in everything


def test_rarely_used_commands_come_last(capsys):
    assert run_command(["--help"], debug=False) == 0
    shown = capsys.readouterr().out
    usual, seldom = shown.split(f"{SELDOM}:")
    for name in ("contexts", "label", "covariance", "train-mend", "judge", "verbalize"):
        assert f"\n  {name} " in seldom and f"\n  {name} " not in usual
    assert "\n  check " in usual


@pytest.mark.parametrize(("words", "command"), [one for one in COMMANDS if settings(one[1])])
def test_a_setting_is_the_option_of_its_name(words: Any, command: Any):
    for one in settings(command):
        name = one.name.rstrip("_")
        if one.is_flag:
            assert spelled(["--set", f"{name}=true"], command.params) == one.opts[:1]
            assert spelled([f"--set={name}=false"], command.params) == one.secondary_opts[:1]
            with pytest.raises(ConfigError, match=f"{name}=1"):
                spelled(["--set", f"{name}=1"], command.params)
        else:
            assert spelled(["x", "--set", f"{name}=a=b", "-o", "y"], command.params) == [
                "x",
                f"{one.opts[0]}=a=b",
                "-o",
                "y",
            ]


def test_set_is_read_by_a_command_and_refuses_what_is_no_setting(capsys):
    app, seen = App(), {}

    @app.command()
    def paint(size: int = typer.Option(1, rich_help_panel="Settings"), colour: str = "red", grey: bool = False) -> None:
        """Paint."""
        seen.update(size=size, colour=colour)

    tree = typer.main.get_command(app)
    tree(["--set", "size=3"], standalone_mode=False)
    assert seen == {"size": 3, "colour": "red"}
    for word in ("colour=blue", "size", "weight=1"):
        with pytest.raises(ConfigError, match=f"--set {word}: .* choose one of size"):
            tree(["--set", word], standalone_mode=False)
    assert run_command(["demo", "--set", "size=1"], debug=False) == 2
    assert "this command has none" in capsys.readouterr().err


def test_a_setting_of_a_method_stays_as_it_is():
    params = dict(COMMANDS)[("evaluate",)].params
    assert spelled(["--set", "ROME.layer=5", "--set", "cache=x"], params) == ["--set", "ROME.layer=5", "--cache=x"]
    assert spelled(["--set", "layer=5"], params) == ["--set", "layer=5"]  # which evaluate refuses itself
    assert spelled(["--", "--set", "cache=x"], params) == ["--", "--set", "cache=x"]
