"""A full-screen program that arms every mode of a terminal, for scripts/screens.

It shows the bytes that it reads. `q` undoes everything and ends; `x` ends with everything armed and exit code
3; `k` kills itself with SIGKILL and `t` with SIGTERM, everything armed.
"""

import os
import signal
import sys
import termios
import tty

# What is armed and how it is undone, in turn.
ARMED = [
    ("\x1b[22;0t\x1b]0;every mode\x07", "\x1b[23;0t"),  # the title, and the one before it kept
    ("\x1b[?1049h", "\x1b[?1049l"),  # the alternate screen
    ("\x1b[?25l", "\x1b[?25h"),  # no cursor
    ("\x1b[?1000h\x1b[?1002h\x1b[?1003h\x1b[?1006h", "\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l"),  # mouse
    ("\x1b[?1004h", "\x1b[?1004l"),  # focus
    ("\x1b[?2004h", "\x1b[?2004l"),  # bracketed paste
    ("\x1b[?2031h\x1b[?2048h", "\x1b[?2048l\x1b[?2031l"),  # reports of colour scheme and size
    ("\x1b[>7u", "\x1b[<u"),  # kitty's keyboard
    ("\x1b[>4;2m", "\x1b[>4;0m"),  # xterm's modifyOtherKeys
    ("\x1b[?1h\x1b=", "\x1b>\x1b[?1l"),  # application cursor keys and keypad
    ("\x1b[4 q", "\x1b[0 q"),  # the cursor's shape
    ("\x1b[?7l", "\x1b[?7h"),  # no wrapping
    ("\x1b]9;4;3;\x1b\\", "\x1b]9;4;0;\x1b\\"),  # progress
]
FRAME = "\x1b[?2026h\x1b[H\x1b[J{}\x1b[2;20r\x1b[?2026l"


def out(text):
    data = text.encode()
    while data:
        data = data[os.write(1, data):]


def main():
    if sys.argv[1:]:
        sys.exit("usage: arm_modes.py, in a terminal")
    before = termios.tcgetattr(0)
    tty.setraw(0)
    for arm, _ in ARMED:
        out(arm)
    lines = ["every mode"]
    while True:
        size = os.get_terminal_size()
        shown = [f"{size.columns}x{size.lines} \x1b[7mevery\x1b[0m \x1b[38;5;208mmode\x1b[0m"] + lines[-12:]
        out(FRAME.format("\r\n".join(shown)))
        read = os.read(0, 1024)
        # One byte in a read is a command. What the terminal sends has more.
        if read == b"k":
            os.kill(os.getpid(), signal.SIGKILL)
        if read == b"t":
            os.kill(os.getpid(), signal.SIGTERM)
        if read == b"x":
            os._exit(3)
        if read == b"q":
            break
        lines.append(read.decode("latin-1").encode("unicode_escape").decode())
    out("\x1b[r" + "".join(undo for _, undo in reversed(ARMED)))
    termios.tcsetattr(0, termios.TCSADRAIN, before)


if __name__ == "__main__":
    main()
