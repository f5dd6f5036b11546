"""A machine whose only program is one of ours, compiled: it leaves what it says in /results/said."""

import os
import shutil
import subprocess

COMMAND_LINE = (
    "root=/dev/root rootfstype=hostfs rootflags=/proc/self/cwd/root rw init=/init time-travel=inf-cpu time-travel-start=1735689600 "
    "con=null con0=null con1=null quiet thash_entries=128 uhash_entries=128"
)


# How a first process tells what it found, and ends the machine.
SAY = r"""
#include <stdarg.h>
#include <stdio.h>
#include <sys/reboot.h>
#include <unistd.h>

static void say(const char *format, ...)
{
	FILE *out = fopen("/results/said", "w");
	va_list values;

	va_start(values, format);
	vfprintf(out, format, values);
	va_end(values);
	fclose(out);
	sync();
	reboot(RB_POWER_OFF);
}
"""


def compiled(file, text):
    """The program `text` in C as `file`; it may `say()` what it found, once."""
    source = file.with_suffix(".c")
    source.write_text("#define _GNU_SOURCE\n" + SAY + text)
    subprocess.run(["gcc", "-O1", "-w", "-static", "-pthread", "-o", file, source], check=True)
    return file


def what_it_says(kernel, program, tmp_path, *, seed=1, memory="256M", before=()):
    """What a program says as a machine's first process; `before` starts the machine."""
    folder = tmp_path / f"machine{len(list(tmp_path.iterdir()))}"
    root = folder / "root"
    for name in ("results", "proc", "dev"):
        (root / name).mkdir(parents=True)
    shutil.copy(program, root / "init")
    environment = {"UML_SEED": str(seed), "GLIBC_TUNABLES": "glibc.pthread.rseq=0", "HOME": str(folder), "TMPDIR": str(folder)}
    command = [*before, "setarch", "-R", str(kernel), f"mem={memory}", *COMMAND_LINE.split()]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    said = root / "results" / "said"
    assert said.exists(), f"the machine said nothing:\n{done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}"
    return said.read_text()
