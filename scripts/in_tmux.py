"""Programs in tmux, for scripts that compare what a person sees: scripts/screens and scripts/real-agents.

Each run has a tmux server of its own, panes of a fixed size, and programs that see nothing of the user's
environment. Nothing here waits for a time alone: it looks until what it waits for is there.
"""

import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Longer on a busy machine.
DEADLINE = float(os.environ.get("SCREENS_DEADLINE", "20"))
# Two looks in a row, this long apart, that show the same are a screen that stands still.
STANDS = 0.06
COLUMNS, ROWS = 90, 28
# What tmux tells of the modes that a program has set.
MODES = [
    "alternate_on", "cursor_flag", "insert_flag", "keypad_cursor_flag", "keypad_flag", "mouse_all_flag",
    "mouse_any_flag", "mouse_button_flag", "mouse_sgr_flag", "mouse_standard_flag", "mouse_utf8_flag",
    "origin_flag", "wrap_flag", "scroll_region_upper", "scroll_region_lower", "cursor_x", "cursor_y",
]


class Failed(Exception):
    """Something is not as it has to be."""


class Server:
    """A tmux server of its own, in a folder that ends with it."""

    def __init__(self, name):
        self.name = name
        # Not TMPDIR: the path of a socket has 103 bytes.
        self.folder = tempfile.mkdtemp(prefix="ap", dir="/tmp")
        self.panes = []

    def tmux(self, *words):
        environment = {"PATH": os.environ["PATH"], "TMUX_TMPDIR": self.folder, "LC_ALL": "C.UTF-8"}
        command = ["tmux", "-L", self.name, "-f", "/dev/null", *words]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=DEADLINE)
        if done.returncode != 0:
            raise Failed(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def close(self):
        for pane in self.panes:
            pane.kill()
        try:
            self.tmux("kill-server")
        except Failed:
            pass  # The last pane's end was its end.
        shutil.rmtree(self.folder, ignore_errors=True)


class Pane:
    """A program in a terminal. Its exit status and the terminal's modes round it are kept."""

    def __init__(self, server, name, command, environment, columns=COLUMNS, rows=ROWS):
        self.server, self.name = server, name
        self.home = server.path(name)
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        self.notes = server.path(name + ".notes")
        os.makedirs(self.notes, mode=0o700)
        words = ["env", "-i", *(f"{name}={value}" for name, value in environment.items())]
        words += [sys.executable, os.path.abspath(__file__), self.notes, *command]
        server.tmux("new-session", "-d", "-s", name, "-x", str(columns), "-y", str(rows), "-c", self.home,
                    "--", *words)
        # All bytes that come, from the first one on: the program waits until they are written down.
        server.tmux("pipe-pane", "-t", f"={name}:", f"exec cat >{self.notes}/bytes")
        open(os.path.join(self.notes, "go"), "w").close()
        server.panes.append(self)

    def screen(self, styled=False):
        words = ["capture-pane", "-p", "-t", f"={self.name}:"]
        return self.server.tmux(*words, *(["-e"] if styled else []))

    def modes(self):
        form = " ".join(f"{name}=#{{{name}}}" for name in MODES)
        return self.server.tmux("display-message", "-p", "-t", f"={self.name}:", form).strip()

    def do(self, what):
        """Types a text, or does what is between angle brackets: presses a key of tmux's naming, gives the
        terminal another size (<resize 60x20>), pastes (<paste TEXT>) or sends bytes (<bytes 1b5b49>)."""
        target = ["-t", f"={self.name}:"]
        found = re.fullmatch(r"<([^ >]+)(?: (.*))?>", what, re.DOTALL)
        if not found:
            self.server.tmux("send-keys", *target, "-l", "--", what)
            return
        name, rest = found.groups()
        if name == "resize":
            columns, rows = rest.split("x")
            self.server.tmux("resize-window", *target, "-x", columns, "-y", rows)
        elif name == "paste":
            self.server.tmux("set-buffer", "--", rest)
            self.server.tmux("paste-buffer", "-p", "-d", *target)
        elif name == "bytes":
            pairs = [rest[at:at + 2] for at in range(0, len(rest), 2)]
            self.server.tmux("send-keys", *target, "-H", *pairs)
        else:
            self.server.tmux("send-keys", *target, name)

    def note(self, name):
        try:
            with open(os.path.join(self.notes, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return b""

    def bytes(self):
        return self.note("bytes")

    def process(self):
        """The process id of the program."""
        return int(wait_until("the program's start", lambda: self.note("process")))

    def ended(self):
        """How the program ended, once it has: its exit code, or a signal as a negative number; and the
        modes of the terminal's line discipline before it and after it."""
        note = self.note("ended")
        return json.loads(note) if note else None

    def wait_for(self, text):
        wait_until(f"{text!r} in {self.name}", lambda: text in self.screen(), self.screen)

    def wait_for_end(self):
        return wait_until(f"the end of {self.name}", self.ended, self.screen)

    def kill(self):
        try:
            os.kill(int(self.note("process")), signal.SIGKILL)
        except (ValueError, ProcessLookupError):
            pass  # Not started, or long gone.


def wait_until(what, holds, show=lambda: ""):
    end = time.monotonic() + DEADLINE
    while True:
        value = holds()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"no {what} within {DEADLINE:.0f} s\n{show()}")
        time.sleep(0.02)


def wait_for_same(panes, expected, mask=lambda screen: screen):
    """Waits until all panes show `expected` and the same screen, styles included, and stand still."""
    before, end = None, time.monotonic() + DEADLINE
    while True:
        shots = [mask(pane.screen(styled=True)) for pane in panes]
        found = all(expected in pane.screen() for pane in panes)
        if found and shots == before and all(shot == shots[0] for shot in shots):
            return shots[0]
        if time.monotonic() > end:
            raise Failed(difference(panes, shots, expected))
        before = shots
        time.sleep(STANDS)


def difference(panes, shots, expected):
    text = [f"not the same screen, with {expected!r} on it, within {DEADLINE:.0f} s"]
    for pane, shot in zip(panes, shots):
        text += [f"--- {pane.name}", shot.rstrip()]
    return "\n".join(text)


def default_binary():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for profile in ["release", "debug"]:
        path = os.path.join(root, "target", profile, "agent-presence")
        if os.access(path, os.X_OK):
            return path
    sys.exit("there is no target/release/agent-presence and no target/debug/agent-presence: cargo build --release")


def terminal_modes():
    return subprocess.run(["stty", "-g"], stdin=0, capture_output=True, text=True).stdout.strip()


def run_in_pane(notes, command):
    """What runs in the pane, around the program."""
    # Keys that are signals reach this process, too. Caught, they are default again in the program.
    for number in [signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP]:
        signal.signal(number, lambda *_: None)
    while not os.path.exists(os.path.join(notes, "go")):
        time.sleep(0.005)
    before = terminal_modes()
    program = subprocess.Popen(command)
    with open(os.path.join(notes, "process"), "w") as file:
        file.write(str(program.pid))
    ended = {"status": program.wait(), "before": before, "after": terminal_modes()}
    with open(os.path.join(notes, "ended.new"), "w") as file:
        json.dump(ended, file)
    os.rename(os.path.join(notes, "ended.new"), os.path.join(notes, "ended"))
    # The screen stays until somebody has looked.
    while True:
        select.select([], [], [])


if __name__ == "__main__":
    run_in_pane(sys.argv[1], sys.argv[2:])
