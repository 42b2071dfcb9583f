"""Full-screen programs in a terminal: they draw, react to keys and to a new size, and leave the shell as it was."""

from screen import Picture


def leave(s, quit_it):
    """The program goes, and the shell is back on its own screen. Keys before the prompt would be thrown away by it."""
    start = len(s.out)
    quit_it()
    s.wait(rb"\x1b\[\?1049l.*# ", start)
    s.run("echo back$((1+1))", "back2")
    s.until(lambda lines: any(line == "back2" for line in lines), "the shell's answer")


def test_vim(api):
    with Picture(api) as s:
        s.control("ready")
        s.type("vim.tiny -u NONE /workspace/note\n")
        s.until(lambda lines: lines[1:23] == ["~"] * 22 and lines[23].startswith('"/workspace/note" [New'), "an empty file")
        s.type("ione\rtwo\x1b")
        s.until(lambda lines: lines[:3] == ["one", "two", "~"], "what was typed")
        for i in range(200):  # a window that is being dragged
            s.resize(40 + i % 60, 10 + i % 30)
        s.resize(70, 20)
        s.ask(":set columns?\r", lambda lines: lines[19] == "  columns=70", "the last width, in the last line of the last height")
        s.type("ggyyp:2d\rGothree\x1b")  # copies a line, takes it away, adds one
        s.until(lambda lines: lines[:4] == ["one", "two", "three", "~"] and lines[18] == "~", "the text in the new window")
        leave(s, lambda: s.type(":wq\r"))
    assert api.sh("cat /workspace/note") == "one\ntwo\nthree\n"


def test_htop(api):
    with Picture(api, cols=100, rows=30) as s:
        s.control("ready")
        s.type("htop\n")
        s.until(lambda lines: "F10Quit" in lines[29] and any("CPU[" in line for line in lines) and any("atoll-agent" in line for line in lines),
                "meters, processes and keys")
        s.resize(120, 40)
        s.until(lambda lines: "F10Quit" in lines[39], "the keys in the last line of the new window")
        s.type("\x1bOR")  # F3: search
        s.until(lambda lines: "Search:" in lines[39], "the field for a search")
        s.type("\x1b")
        s.until(lambda lines: "F10Quit" in lines[39], "the keys again")
        leave(s, lambda: s.type("q"))


def test_tmux(api):
    with Picture(api, cols=90, rows=25) as s:
        s.control("ready")
        s.type("tmux -f /dev/null new -s work\n")
        s.until(lambda lines: lines[24].startswith("[work]"), "the status line")
        s.type("echo left$((1+1))\r")
        s.until(lambda lines: "left2" in lines, "the answer of the first pane")
        s.type("\x02%")  # a second one beside it
        s.until(lambda lines: all(line[45:46] == "│" for line in lines[:24]), "a line between two panes")
        s.type("echo right$((2+3))\r")
        s.until(lambda lines: any(line.endswith("│right5") for line in lines), "the answer of the second")
        s.resize(60, 20)
        s.until(lambda lines: lines[19].startswith("[work]"), "the status line in the new window")
        s.type("until [ \"$(stty size | cut -d' ' -f1)\" = 19 ]; do sleep 0.05; done; echo small$((3+4))\r")
        s.until(lambda lines: any(line.endswith("│small7") for line in lines), "the pane has the new height")
        leave(s, lambda: s.type("\x02d"))
        s.type("tmux attach\r")
        s.until(lambda lines: lines[19].startswith("[work]") and any("left2" in line for line in lines), "the same two panes")
        leave(s, lambda: api.sh("tmux kill-server"))


def test_two_who_look_at_one_program_see_the_same(api):
    with Picture(api) as one:
        one.control("ready")
        one.type("vim.tiny -u NONE /workspace/shared\n")
        one.until(lambda lines: lines[1:23] == ["~"] * 22 and "[New" in lines[23], "vim")
        with Picture(api) as two:  # comes later: what was shown before draws its picture
            two.until(lambda lines: lines[1:23] == ["~"] * 22 and "[New" in lines[23], "the same picture")
            two.type("ifrom two\x1b")
            for s in (one, two):
                s.until(lambda lines: lines[0] == "from two", "what one of them typed")
            # A terminal has one size: the last who said something has said it for all.
            two.resize(60, 12)
            two.until(lambda lines: "" not in lines[1:11] and lines[10] == "~", "the smaller window")
        one.picture.resize(12, 60)
        leave(one, lambda: one.type("\x1b:q!\r"))
