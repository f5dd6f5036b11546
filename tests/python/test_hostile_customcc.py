"""Own C that a stranger sent."""

import itertools
import platform
import subprocess
import sys
from pathlib import Path

import pytest
from requirement import lacking
from study_data import one_link, written

from polypath import StudyError, _native, customcc, run
from polypath.customcc import CustomCcError, _compile

FIELDS = {"matrix": "{cc: [NAME]}", "duration": "1s", "baselines": "null", "measure": "{series: null}"}
STUDY = one_link("own", "{rate: 5mbit, delay: 5ms, queue: 50packets}", **FIELDS)
pytestmark = pytest.mark.usefixtures("own_cache")
HEAD = '#include "pp_math.h"\n'
BODY = "\t(void)ack;"
NUMBERS = itertools.count()


def begun(folder, *changes):
    """A working algorithm with changes, under a name of its own."""
    file = customcc.new(f"hst_{next(NUMBERS)}", folder)
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def study(folder, name):
    return written(folder, STUDY.replace("NAME", name))


# Behind the first include -> a part of the sentence. SECRET holds "secretive".
TEXTS = {
    "a constructor": ("__attribute__((constructor)) static void f(void) {}", "an algorithm has no attribute constructor"),
    "a destructor with bars": ("__attribute((__destructor__)) static void f(void) {}", "an algorithm has no attribute __destructor__"),
    "a constructor behind others": (
        "__attribute__((unused, aligned(sizeof(int)), constructor(101))) static void f(void) {}",
        "an algorithm has no attribute constructor",
    ),
    "a constructor put together": (
        "#define PUT(a, b) a##b\n__attribute__((PUT(constr, uctor))) static void f(void) {}",
        "an algorithm has no attribute PUT",
    ),
    "an attribute put together": (
        "#define PUT(a, b) a##b\nPUT(__attri, bute__)((constructor)) static void f(void) {}",
        "an algorithm has no attribute constructor",
    ),
    "a constructor in brackets": ("[[gnu::constructor]] static void f(void) {}", "an algorithm has no attribute [[...]]"),
    "a place in the object": (
        'static void f(void) {}\n__attribute__((section(".init_array"))) void *const g = f;',
        "an algorithm has no attribute section",
    ),
    "a function that chooses": ('static void *r(void) { return 0; }\nvoid f(void) __attribute__((ifunc("r")));', "no attribute ifunc"),
    "an alias": ('void f(void) {}\nvoid g(void) __attribute__((alias("f")));', "an algorithm has no attribute alias"),
    "assembly": ('static void f(void) { __asm__ volatile("syscall"); }', "__asm__ is assembly"),
    "assembly of a file": ('asm(".incbin \\"SECRET\\"");', "asm is assembly"),
    "assembly put together": ('#define PUT(a, b) a##b\nPUT(a, sm)(".incbin \\"SECRET\\"");', "asm is assembly"),
    "assembly over a line's end": ('a\\\nsm(".incbin \\"SECRET\\"");', "asm is assembly"),
    "another name in the object": ('int f(void) asm("execve");', "asm is assembly"),
    "a file": ('#include "SECRET"', "it includes SECRET, and an algorithm includes nothing but"),
    "a file in angles": ("#include <SECRET>", "it includes SECRET"),
    "a file by a macro": ('#define FILE "SECRET"\n#include FILE', "it includes FILE"),
    "a file by another sign": ('%:include "SECRET"', "it includes SECRET"),
    "a file over a line's end": ('#incl\\\nude "SECRET"', "it includes SECRET"),
    "a file over a line's end with blanks": ('#incl\\  \nude "SECRET"', "it includes SECRET"),
    "a file behind a comment": ('/* a\n */ # /* b */ include "SECRET"', "it includes SECRET"),
    "a file behind an open quote": ('#if 0\n\' /*\n#endif\n#include "SECRET"\n/* */', "it includes SECRET"),
    "a file behind a raw text": ('static const char f[] = R"(\n/*\n)";\n#include "SECRET"\n/* */', "a raw text stands here"),
    "the next file": ('#include_next "SECRET"', "it says #include_next"),
    "a file of Objective C": ('#import "SECRET"', "it says #import"),
    "bytes of a file": ('static const unsigned char f[] = {\n#embed "SECRET"\n};', "it says #embed"),
    "another file's line": ('#line 1 "SECRET"\n!', "it says #line"),
    "another file's line in numbers": ('# 1 "SECRET"\n!', "it says #1"),
    "a pragma": ('#pragma GCC dependency "SECRET"', "it says #pragma"),
    "a pragma in words": ('_Pragma("GCC dependency \\"SECRET\\"")', "_Pragma tells the compiler something"),
    "a pragma put together": (
        '#define PUT(a, b) a##b\nPUT(_Pra, gma)("GCC dependency \\"SECRET\\"")',
        ("it tells the compiler something (#pragma)", "_Pragma tells the compiler something"),
    ),
    "whether there is a file": ('#if __has_include("SECRET")\n#error\n#endif', "__has_include looks for a file"),
    "the C library": ("#include <stdio.h>", "it includes stdio.h"),
    "a control character": ("\x1b[2J", "a control character ('\\x1b') stands here"),
    "a line's end of another kind": ('//\r#include "SECRET"', "a control character ('\\r') stands here"),
}


@pytest.mark.parametrize("text, sentences", TEXTS.values(), ids=TEXTS.keys())
def test_what_is_not_c_alone_or_reads_a_file_is_refused_with_its_line(tmp_path, text, sentences):
    secret = tmp_path / "secret.txt"
    secret.write_text("secretive\n")
    file = begun(tmp_path / "mine", (HEAD, HEAD + text.replace("SECRET", str(secret)) + "\n"))
    with pytest.raises(CustomCcError) as error:
        customcc.use(file.parent)
    told = str(error.value).replace(str(secret), "SECRET")
    sentences = (sentences,) if isinstance(sentences, str) else sentences
    assert any(sentence in told for sentence in sentences), told
    assert "secretive" not in told
    line = int(told.removeprefix(f"{file}:").split(":")[0])
    first = file.read_text().partition(HEAD)[0].count("\n") + 2
    assert first <= line <= first + text.count("\n") + text.count("\r"), told


def test_headers_beside_the_file_are_looked_at_as_the_file_is_and_lead_nowhere(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secretive\n")
    file = begun(tmp_path / "mine", (HEAD, HEAD + '#include "beside.h"\n'))
    beside = file.parent / "beside.h"
    beside.write_text(f'#define A 1\n#include "{secret}"\n')
    with pytest.raises(CustomCcError, match=r"beside\.h:2: it includes "):
        customcc.use(file.parent)
    beside.unlink()
    beside.symlink_to(secret)
    with pytest.raises(CustomCcError, match=r"beside\.h is a link that leads out of its folder") as error:
        customcc.use(file.parent)
    assert "secretive" not in str(error.value)
    beside.unlink()
    beside.write_text("#define A 1 /* \\ */\n")
    assert [each.name for each in customcc.use(file.parent)] == [file.stem]


OBJECTS = {
    "a constructor": ('__attribute__((constructor)) static void f(void) { __asm__ volatile("ud2"); }', ".init_array"),
    "a destructor": ('__attribute__((destructor)) static void f(void) { __asm__ volatile("ud2"); }', ".fini_array"),
    "a section that is run": ('__asm__(".section .init,\\"ax\\",@progbits\\n ud2\\n .text");', ".init "),
    "constructors of old": ('__asm__(".section .ctors,\\"aw\\",@progbits\\n .quad 0\\n .text");', "_array|.ctors"),
    "a function that chooses": ('static void *r(void) { return 0; }\nvoid f(void) __attribute__((ifunc("r")));', "f "),
    "a variable": ("int f = 1;", "f is a variable"),
    "a thread's variable": ("__thread int f;", "f is a variable"),
    "another's function": ("int system(const char *);\nint f(void) { return system(0); }", "system is of another's"),
}


@pytest.mark.parametrize("text, sentence", OBJECTS.values(), ids=OBJECTS.keys())
def test_an_object_is_refused_without_being_run_whatever_compiled_it(tmp_path, text, sentence):
    file = begun(tmp_path, (HEAD, HEAD + text + "\n"))
    abi, made = tmp_path / "abi.c", tmp_path / "made.so"
    abi.write_text('#include "pp_cc.h"\n' + _native.abi_source())
    include = ["-I", str(customcc.sources() / "include")]
    subprocess.run(["cc", "-shared", "-nostdlib", "-fPIC", "-O2", *include, "-o", made, file, abi], check=True, capture_output=True)
    with pytest.raises(ValueError) as error:
        _native.add_algorithm(str(made), file.stem)
    assert any(part in str(error.value) for part in sentence.split("|")), str(error.value)


def test_no_code_of_it_is_in_this_process_nor_of_an_object_that_is_none(tmp_path):
    def executable():
        lines = Path("/proc/self/maps").read_text().splitlines()
        # Memory that belongs to no file, and files below the cache.
        return sum(" r-xp " in line and (len(line.split()) < 6 or "/polypath/own/" in line) for line in lines)

    before = executable()
    (mine,) = customcc.use(begun(tmp_path).parent)
    run(study(tmp_path, mine.name), out=tmp_path / "results")
    assert executable() == before
    whole = customcc.object_for(mine).read_bytes()
    broken = tmp_path / "broken.so"
    for content in (b"", b"\x7fELF", whole[:100], whole[: len(whole) // 2], b"\0" * 5000, whole[:64] + b"\xff" * 4000):
        broken.write_bytes(content)
        with pytest.raises(ValueError, match=r"broken\.so: "):
            _native.add_algorithm(str(broken), "hst_none")


@pytest.fixture
def x86_64():
    if platform.machine() != "x86_64":
        lacking("sim", "its system calls are those of x86-64")


needs_x86 = pytest.mark.usefixtures("x86_64")
CALL = """
static long call(long number, long a, long b, long c)
{
\tlong result;
\t__asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
\treturn result;
}
"""
FORBIDDEN = {
    "a program": 'call(59, (long)"/bin/true", 0, 0);',
    "a process": "call(57, 0, 0, 0);",
    "a thread": "call(56, 0x10f00, 0, 0);",
    "a socket": "call(41, 2, 1, 0);",
    "another's memory": "call(101, 16, 1, 0);",
    "a signal to another": "call(234, 1, 1, 6);",
    "a file to read": 'call(257, -100, (long)"MARK", 0);',
    "a file to write": 'call(257, -100, (long)"MARK", 577);',
    "memory of an open file": "call(9, 0, 4096, 3);",
    "a file to remove": 'call(87, (long)"MARK", 0, 0);',
    "a file by its old call": 'call(2, (long)"MARK", 65, 420);',
    "stdout": 'call(1, 1, (long)"written\\n", 8);',
    "another 32-bit number": 'call(0x40000001, 1, (long)"written\\n", 8);',
    "more rights": "call(105, 0, 0, 0);",
    "its own filter": "call(157, 22, 0, 0);",
}


def unchecked(monkeypatch, file):
    """Takes it in though its text is refused, as after a hole in the checks."""
    monkeypatch.setattr(_compile, "check_text", lambda *_: None)
    monkeypatch.setattr(_compile, "check_preprocessed", lambda *_: None)
    return customcc.use(file.parent)


@needs_x86
@pytest.mark.parametrize("line", FORBIDDEN.values(), ids=FORBIDDEN.keys())
def test_code_that_asks_the_system_for_anything_ends_its_run_alone(tmp_path, monkeypatch, capfd, line):
    mark = tmp_path / "mark"
    mark.write_text("kept")
    mine = tmp_path / "mine"
    (own,) = unchecked(monkeypatch, begun(mine, (HEAD, HEAD + CALL), (BODY, f"{BODY}\n\t{line.replace('MARK', str(mark))}")))
    with pytest.raises(StudyError) as error:
        run(study(tmp_path, own.name), out=tmp_path / "results")
    assert f"own: {own.name}.c: its hook cong_avoid crashed (signal 31): it asks the system for something" in str(error.value)
    assert mark.read_text() == "kept"
    assert "written" not in "".join(capfd.readouterr())


# Takes system calls that install filters away, as a container may; then runs what follows.
WITHOUT_SECCOMP = """
import ctypes, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
load, jump, give = 0x20, 0x15, 0x06
program = [(load, 0, 0, 0), (jump, 3, 0, 317), (jump, 0, 3, 157), (load, 0, 0, 16), (jump, 0, 1, 22), (give, 0, 0, 0x00050001),
           (give, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("HBBI", *each) for each in program)
buffer = ctypes.create_string_buffer(code)
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(len(program), ctypes.addressof(buffer)))) == 0, ctypes.get_errno()
assert libc.prctl(22, 2, None) == -1
from polypath import cli
sys.argv = ["polypath", *sys.argv[1:]]
cli.main()
"""


@needs_x86
def test_where_nothing_can_be_confined_it_is_not_run(tmp_path):
    study(tmp_path, begun(tmp_path / "mine").stem)
    command = [sys.executable, "-c", WITHOUT_SECCOMP, "run", ".", "--cc-path", "mine", "--no-report"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (told,) = [line for line in done.stderr.splitlines() if line.startswith("polypath: ")]
    assert "this machine cannot confine an algorithm of your own, so that it is not run" in told
    assert "Traceback" not in done.stderr
