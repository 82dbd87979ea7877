"""make demo: plays the small factory on the real services and checks it. Ends non-zero when anything is off."""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import time
from pathlib import Path

import business_scenes
import factory
import memory_scenes
import scenes
from business import Books
from memoryos_models.scripted import ScriptedServer
from model import script
from rich.console import Console
from rich.markup import escape
from stage import SceneFailed, Stage

HERE = Path(__file__).parent


async def play(stage: Stage, settings: list[str]) -> None:
    """Start everything, play the scenes in order, stop everything."""
    start = time.monotonic()
    await stage.mos("up", "--detach", *settings)
    stage.console.print(f"everything is up after {time.monotonic() - start:.1f} s\n")
    try:
        task_id = ""
        for number, scene in enumerate(
            (scenes.takt_time, scenes.across_languages, scenes.private_note, scenes.production_ticket), 1
        ):
            title(stage, number, scene.__doc__)
            await scene(stage)
        title(stage, 5, "A refund above the limit waits for a person, and happens once whatever dies.")
        task_id = await scenes.refund(stage)
        title(stage, 6, scenes.records.__doc__)
        await scenes.records(stage, task_id)
        for number, scene in enumerate(
            (memory_scenes.changed_fact, memory_scenes.doubt, memory_scenes.bad_release, memory_scenes.erasure), 7
        ):
            title(stage, number, scene.__doc__)
            await scene(stage)
        for number, scene in enumerate(
            (business_scenes.customers, business_scenes.mails, business_scenes.work_group), 11
        ):
            title(stage, number, scene.__doc__)
            await scene(stage)
    finally:
        await stage.close()
        await stage.mos("down")


def title(stage: Stage, number: int, text: str | None) -> None:
    """Print the head of a scene."""
    stage.console.rule(f"[bold]{number}. {(text or '').strip().splitlines()[0]}", align="left")


def main() -> int:
    """Play the demo."""
    parser = argparse.ArgumentParser(description="Plays thirteen scenes of a small factory on the real services.")
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "out" / "demo", help="data folder, made anew")
    data: Path = parser.parse_args().data.absolute()
    shutil.rmtree(data, ignore_errors=True)
    console = Console(width=110, soft_wrap=True)
    start = time.monotonic()
    with factory.running(Books.draw(random.Random())) as outside, ScriptedServer(script) as model:
        wanted = [f"models.chat_url={model.base_url}", "models.chat_model=scripted", *outside.settings()]
        settings = [part for setting in wanted for part in ("--set", setting)]
        outside.business.login.keys_file = data / "keys" / "jwks.json"
        console.print(
            f"The business is at http://{outside.server.address}, its mail server at {outside.post.address}; "
            f"the model is [bold]a script[/] at {model.base_url}."
        )
        stage = Stage(data, outside.business, outside.post, console)
        try:
            asyncio.run(play(stage, settings))
        except SceneFailed as failure:
            console.print(f"  [red]✗ {escape(str(failure))}[/]", highlight=False)
            console.print(f"The demo failed. Logs are in {data / 'logs'}.")
            return 1
    console.rule()
    console.print(
        f"All {stage.checks} checks hold ({time.monotonic() - start:.0f} s). Try it by hand: .venv/bin/mos up"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
