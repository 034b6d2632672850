"""A small TUI agent with an input line at the bottom, for tests.

usage: composer.py [raw] [burst] [dialog] [swallow] [full] [steer] [twice] [menu]

raw      no bracketed paste      burst    Enter within 120 ms of a burst of keys is a newline
dialog   the text "danger" opens a dialog as soon as it is typed; Enter in it approves
swallow  Enter does nothing      full     the alternate screen
steer    Enter in a turn goes into that turn      twice    only a second Esc stops a turn
menu     the cursor is hidden, as in a menu, until "q"
$PROMPT is what the input line begins with ("> ").
Every turn that begins is written to $LOG, and so is an approval.
"""
import base64, os, select, sys, termios, time, tty

flags = set(sys.argv[1:])
log = os.environ.get("LOG", "/dev/null")
prompt = os.environ.get("PROMPT", "> ")
escapes = 0
buffer, lines, state, pasting = "", ["Composer."], "idle", False
burst, last, gaps = 0.0, 0.0, 0


def note(text):
    with open(log, "a") as file:
        file.write(text.replace("\n", "\\n") + "\n")


def out(text):
    data = text.encode()
    while data:
        data = data[os.write(1, data):]


def title(text):
    out(f"\x1b]0;{text}\x07")


def hint():
    if "twice" not in flags or state != "working":
        return "status"
    return "esc again to interrupt" if escapes else "esc interrupt"


def draw():
    size = os.get_terminal_size()
    shown = buffer if len(buffer) < 700 else f"[Pasted text #1 +{buffer.count(chr(10))} lines]"
    if state == "dialog":
        rows = lines[-8:] + ["Run the dangerous thing?", "> 1. Yes", "  2. No", "", "Enter to confirm"]
    else:
        rows = lines[-8:] + [""] + (prompt + shown).split("\n")[-8:] + ["", hint()]
    shown = "" if "menu" in flags else "\x1b[?25h"
    out("\x1b[?25l\x1b[H\x1b[J" + "\r\n".join(row[: size.columns - 1] for row in rows) + shown)


def begin(text):
    global state, until, escapes
    note("turn " + text)
    escapes = 0
    state, until = "working", time.time() + (3600 if "long" in text else 0.3)
    title("⠙ working")


def end(text):
    global state
    lines.append(text)
    state = "idle"
    title("composer")


def key(char):
    global buffer, state, burst, last, gaps, escapes
    now = time.time()
    gaps = gaps + 1 if now - last < 0.008 else 0
    if gaps >= 3:
        burst = now
    last = now
    if char == "\r":
        if state == "dialog":
            note("APPROVED")
            state = "idle"
            buffer = ""
        elif "swallow" in flags:
            pass
        elif "burst" in flags and now - burst < 0.12 and not pasting:
            buffer += "\n"
        elif buffer and state == "working" and "steer" in flags:
            note("steer " + buffer)
            lines.append(prompt + buffer)
            buffer = ""
        elif buffer and state == "idle":
            text, buffer = buffer, ""
            lines.append("> " + text.split("\n")[0])
            begin(text)
    elif char == "\x1b" or char == "\x03":
        note("interrupt " + repr(char))
        escapes += 1
        if state == "working" and ("twice" not in flags or escapes == 2):
            end("Interrupted")
    elif "menu" in flags and char == "q":
        flags.discard("menu")
    elif state != "dialog":
        buffer += char
        if "dialog" in flags and buffer.endswith("danger"):
            state = "dialog"


old = termios.tcgetattr(0)
tty.setraw(0)
until, rest = 0.0, b""
out(("\x1b[?1049h" if "full" in flags else "") + ("" if "raw" in flags else "\x1b[?2004h"))
title("composer")
draw()
try:
    while True:
        ready, _, _ = select.select([0], [], [], 0.05)
        if ready:
            data = rest + os.read(0, 65536)
            rest = b""
            if not data or data == b"\x04":
                break
            while data:
                if data.startswith(b"\x1b[200~"):
                    pasting, data = True, data[6:]
                elif data.startswith(b"\x1b[201~"):
                    pasting, data = False, data[6:]
                    gaps = 0
                    burst = 0.0
                elif pasting:
                    end_at = data.find(b"\x1b")
                    part, data = (data, b"") if end_at < 0 else (data[:end_at], data[end_at:])
                    if len(data) < 6 and end_at >= 0:
                        rest, data = data, b""
                    if state != "dialog":
                        buffer += part.decode(errors="replace").replace("\r", "\n")
                        if "dialog" in flags and buffer.endswith("danger"):
                            state = "dialog"
                else:
                    key(chr(data[0]))
                    data = data[1:]
            draw()
        if state == "working" and time.time() > until:
            end("Answer " + str(len(lines)))
            draw()
finally:
    out("\x1b[?2004l" + ("\x1b[?1049l" if "full" in flags else ""))
    termios.tcsetattr(0, termios.TCSADRAIN, old)
