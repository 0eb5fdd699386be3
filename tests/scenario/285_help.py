# SPDX-License-Identifier: Apache-2.0
"""Every program and command has help, every option in it a text, every program a manual page with
all of that, every setting a comment and a place in posed.conf(5)."""
import gzip
import os
import re
import shutil
import subprocess

import harness
from harness import BINARY, SOURCE, check

WITH_COMMANDS = ("posectl", "posed-bench")
MIN_OPTIONS = 250  # of all programs: fewer were found by mistake


def help_of(*command):
    done = subprocess.run([BINARY + "/bin/" + command[0], *command[1:], "--help"],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)
    check(done.returncode == 0 and len(done.stdout) > 60, f"{command}: {done}")
    return done.stdout


def options_of(text):
    """Long options and their texts, as argp prints them: in columns, long ones on lines of their
    own."""
    out, lines = {}, text.splitlines()
    for i, line in enumerate(lines):
        match = re.match(r"^ {1,6}(?:-[?a-zA-Z](?:[ =]\S+)?, )?(--[a-z][a-z0-9-]*)(.*)$", line)
        if not match:
            continue
        names = re.findall(r"--[a-z][a-z0-9-]*", line.strip().split("   ")[0])
        said = [part for part in re.split(r" {2,}", match[2], maxsplit=1)[1:] if part]
        follows = lines[i + 1] if i + 1 < len(lines) else ""
        if re.match(r"^ {20,}\S", follows):
            said.append(follows.strip())
        for name in names:
            out[name] = " ".join(said)
    return out


def check_once():
    """No option stands twice in a help, with two meanings."""
    for command in ("calibrate", "register", "rig", "map", "watch"):
        names = re.findall(r"^ {6}(--[a-z][a-z0-9-]*)", help_of("posectl", command), re.M)
        twice = sorted({name for name in names if names.count(name) > 1})
        check(not twice, f"posectl {command}: twice {twice}")


def check_options():
    """Returns the names of all programs and commands with their options."""
    found, without = {}, []
    for program in sorted(os.listdir(BINARY + "/bin")):
        text = help_of(program)
        found[program, ] = options_of(text)
        if program in WITH_COMMANDS:
            for command in re.findall(r"^  ([a-z][a-z-]+)  +\S", text, re.M):
                found[program, command] = options_of(help_of(program, command))
    for command, options in found.items():
        check(options or len(command) == 1, f"{command}: no option is found")
        without += [f"{' '.join(command)} {name}" for name, said in options.items() if not said]
    n = sum(map(len, found.values()))
    check(n >= MIN_OPTIONS, f"{n} options")
    check(not without, f"without a text: {without}")
    print(f"{n} options of {len(found)} programs and commands")
    return found


def check_pages(found):
    folder = harness.SCRATCH + "/man"
    subprocess.run([SOURCE + "/tools/manpages", BINARY + "/bin", SOURCE + "/config/posed.conf",
                    folder], check=True, timeout=harness.PATIENCE_S)
    pages = {}
    for name in os.listdir(folder):
        with gzip.open(f"{folder}/{name}", "rt", encoding="utf-8") as file:
            pages[name] = file.read().replace("\\-", "-").replace("\\&", "")
    for command, options in found.items():
        name = command[0] + ".1.gz"
        check(name in pages, f"no manual page of {command[0]}")
        missing = [option for option in options if option not in pages[name]]
        check(not missing, f"{name} lacks {missing}")
        if len(command) == 2:
            heading = f'{command[0]} {command[1]}'.upper()
            check(heading in pages[name], f"{name} has no part {heading}")
    with open(SOURCE + "/config/posed.conf", encoding="utf-8") as file:
        settings = re.findall(r"^#? ?(\w+) = ", file.read(), re.M)
    check(len(settings) > 60, f"{len(settings)} settings")
    missing = [key for key in settings if key not in pages["posed.conf.5.gz"]]
    check(not missing, f"posed.conf(5) lacks {missing}")


def check_completion():
    """bash offers each command, and each of its options."""
    for words, wanted in ((["posectl", ""], {"status", "watch", "calibration", "record"}),
                          (["posectl", "get", "--"], {"--stride", "--host"}),
                          (["posectl", "map", ""], {"save", "load", "export", "optimise"}),
                          (["posectl", "get", "c"], {"cloud"}),
                          (["posectl", "--host", "x", "map", ""], {"save", "load", "optimise"}),
                          (["posectl", "--timeout", "=", "3", "-o", "json", "stat"], {"status"}),
                          (["posectl", "watch", ""], {"pose", "depth", "cloud", "rig"}),
                          (["posectl", "watch", "pose", "r"], {"residual", "rig"}),
                          (["posed", "--source", "syn"], {"synth:"}),
                          (["posed", "sevens"], {"sevenscenes:"}),
                          (["posed-align", "gen"], {"generate"}),
                          (["posed-align", "generate", "--v"], {"--views", "--vertices"}),
                          (["posed-eval", "--"], {"--groundtruth"}),
                          (["posed", "--backend", ""], {"auto", "cpu", "cuda"}),
                          (["posed", "--reference", "=", "k"], {"keyframe"}),
                          (["posed", "--speed", "="], {"real", "max"}),
                          (["posectl", "record", "start", "a", "-f", "m"], {"mcap"}),
                          (["posectl", "search", "--preset", ""], {"default", "germann"}),
                          (["posed-align", "--start", "m"], {"many"})):
        program = f"""
            PATH={BINARY}/bin:$PATH; . {SOURCE}/config/completion.bash
            COMP_WORDS=({' '.join(repr(word) for word in words)}) COMP_CWORD={len(words) - 1}
            _posed_complete {words[0]} {words[-1]!r}; echo "${{COMPREPLY[@]}}" """
        done = subprocess.run(["bash", "-c", program], capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        offered = set(done.stdout.split())
        exact = words[-1] and "--" not in words[-1] or words[-2].startswith("-")
        check(offered == wanted if exact else wanted <= offered, f"{words}: {done}")


def check_words():
    """Help has the words that an option takes as --option=one|other, and those it does take.

    Not of "posectl record": the daemon knows its formats.
    """
    n = 0
    for command in [(p,) for p in ("posed", "posed-align")] + [
            ("posectl", c) for c in ("calibrate", "object", "register", "rig", "search")]:
        for option, words in re.findall(r"(--[a-z-]+)=([a-z0-9]+(?:\|[a-z0-9]+)+)(?: |$)",
                                        help_of(*command), re.M):
            done = subprocess.run([BINARY + "/bin/" + command[0], *command[1:], option + "=no"],
                                  capture_output=True, text=True, timeout=harness.PATIENCE_S)
            said = set(re.findall(r"\w+", done.stderr.splitlines()[0]))
            check(done.returncode == 2 and set(words.split("|")) <= said,
                  f"{command} {option}: {words} is not what is wanted: {done.stderr}")
            n += 1
    check(n >= 12, f"{n} options with words")


def check_order():
    """Common options of posectl stand behind the command or in front of it."""
    def say(*arguments):
        done = subprocess.run([BINARY + "/bin/posectl", *arguments], capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        return done.returncode, done.stdout, done.stderr

    common = ["--timeout", "0.2", "-o", "json", "--camera=front", "-e" + harness.SCRATCH]
    behind = say("status", *common)
    check(behind[0] == 3 and harness.SCRATCH in behind[2], f"{behind}")
    check(say(*common, "status") == behind, f"{say(*common, 'status')} is not {behind}")
    for wrong in (["--wrong", "status"], ["-e"], ["--timeout", "1"], ["--timeout", "1", "nothing"]):
        said = say(*wrong)
        check(said[0] == 2 and "no command" in said[2], f"{wrong}: {said}")
    said = say("statsu")
    check(said[0] == 2 and "did you mean status?" in said[2] and "Usage" not in said[2], f"{said}")


def scenario():
    check_order()
    check_once()
    found = check_options()
    if shutil.which("scdoc"):
        check_pages(found)
    else:
        print("SKIP: no scdoc: the manual pages")
    check_completion()
    check_words()


harness.run(scenario)
