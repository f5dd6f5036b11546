"""The kernels of the linux engine as they are on this machine: what an executable holds, and that our algorithms become part of it.

Building one takes minutes and is no part of these tests: `polypath linux build 6.12` does it, and `make test` where none is there.
Without a kernel they are skipped with the reason; with "linux" in POLYPATH_REQUIRE they fail.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from requirement import lacking

from polypath import linux
from polypath.linux import KernelError, _edits, _features, _link
from polypath.linux._commands import locked
from polypath.linux._kernel import places
from polypath.linux._recipe import Recipe

WINDOW = 7
FIXED = f"""/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* A window of {WINDOW} segments, whatever happens: tells whether cong_control reaches an algorithm. */
#include "pp_math.h"

static __u32 fixed_ssthresh(struct pp_ctx *c)
{{
	return pp_half(c->flow);
}}

static __u32 fixed_undo_cwnd(struct pp_ctx *c)
{{
	return c->flow->cwnd;
}}

static void fixed_cong_control(struct pp_ctx *c, __u32 ack, __u32 ack_flags, const struct pp_sample *s)
{{
	(void)ack;
	(void)ack_flags;
	(void)s;
	c->flow->cwnd = {WINDOW};
}}

PP_CC_REGISTER(fixed) = {{
	.name = "fixed",
	.flags = PP_CC_SEES_SAMPLES,
	.ssthresh = fixed_ssthresh,
	.undo_cwnd = fixed_undo_cwnd,
	.cong_control = fixed_cong_control,
}};
"""

# The only program of a machine: sends itself data over the loopback device with each algorithm and tells the window.
PROBE = r"""
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#define BYTES 2000000

static unsigned window(const char *algorithm, unsigned short port)
{
	static char data[100000];
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listener = socket(AF_INET, SOCK_STREAM, 0), sender = socket(AF_INET, SOCK_STREAM, 0), receiver, sent = 0, got = 0;
	struct tcp_info info;
	socklen_t length = sizeof(info);

	if (bind(listener, (void *)&to, sizeof(to)) || listen(listener, 1))
		return 0;
	if (setsockopt(sender, IPPROTO_TCP, TCP_CONGESTION, algorithm, strlen(algorithm)) || connect(sender, (void *)&to, sizeof(to)))
		return 0;
	receiver = accept(listener, NULL, NULL);
	fcntl(sender, F_SETFL, O_NONBLOCK);
	while (got < BYTES) {
		ssize_t n = write(sender, data, sizeof(data));

		sent += n > 0 ? n : 0;
		if (got < sent)
			got += read(receiver, data, sizeof(data));
		usleep(1000);
	}
	getsockopt(sender, IPPROTO_TCP, TCP_INFO, &info, &length);
	close(sender);
	close(receiver);
	close(listener);
	return info.tcpi_snd_cwnd;
}

int main(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	struct utsname name;
	unsigned char random[8];
	unsigned short port = 5000;
	char names[4096] = "", *word;
	FILE *out, *file;
	int i;

	mount("proc", "/proc", "proc", 0, "");
	out = fopen("/results/said", "w");
	uname(&name);
	fprintf(out, "release %s\nversion %s\n", name.release, name.version);
	getentropy(random, sizeof(random));
	fprintf(out, "random ");
	for (i = 0; i < 8; i++)
		fprintf(out, "%02x", random[i]);
	fprintf(out, "\n");
	file = fopen("/proc/cpuinfo", "r");
	while (fgets(names, sizeof(names), file))
		fprintf(out, "cpu %s", names);
	fclose(file);
	ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &lo);
	file = fopen("/proc/sys/net/ipv4/tcp_available_congestion_control", "r");
	fgets(names, sizeof(names), file);
	for (word = strtok(names, " \n"); word; word = strtok(NULL, " \n"))
		fprintf(out, "window %s %u\n", word, window(word, port++));
	fclose(out);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
"""
# Processes and threads that hold values in vector registers across system calls, page faults and signals, which host.c handles sparingly.
REGISTERS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 300

static int wide;

static long changed(unsigned long id)
{
	char *pages = mmap(NULL, ROUNDS * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long wrong = 0;

	for (unsigned long i = 0; i < ROUNDS; i++) {
		unsigned long value = id << 32 | i, low = 0, high = value;

		if (wide)
			asm volatile("vmovq %2, %%xmm6; vinsertf128 $1, %%xmm6, %%ymm6, %%ymm6; movb $1, (%3); movl $24, %%eax; syscall; movb $1, (%3);"
					"vmovq %%xmm6, %0; vextractf128 $1, %%ymm6, %%xmm6; vmovq %%xmm6, %1"
					: "=&r"(low), "=&r"(high) : "r"(value), "r"(pages + i * 4096) : "rax", "rcx", "r11", "memory", "xmm6");
		else
			asm volatile("movq %1, %%xmm6; movb $1, (%2); movl $24, %%eax; syscall; movq %%xmm6, %0"
					: "=&r"(low) : "r"(value), "r"(pages + i * 4096) : "rax", "rcx", "r11", "memory", "xmm6");
		wrong += low != value || high != value;
	}
	return wrong;
}

static void *thread(void *id)
{
	return (void *)changed((unsigned long)id);
}

static void handler(int signal)
{
	asm volatile("pcmpeqd %%xmm6, %%xmm6" ::: "xmm6");
}

int main(void)
{
	FILE *out = fopen("/results/said", "w");
	long wrong = 0;
	int status;

	wide = __builtin_cpu_supports("avx");
	signal(SIGUSR1, handler);
	for (unsigned long process = 1; process <= 3; process++)
		if (!fork()) {
			pthread_t other;
			void *result;

			for (int i = 0; i < 3; i++)
				kill(getpid(), SIGUSR1);
			pthread_create(&other, NULL, thread, (void *)(process * 16));
			wrong = changed(process);
			pthread_join(other, &result);
			_exit(wrong + (long)result > 0);
		}
	while (wait(&status) > 0)
		wrong += status != 0;
	fprintf(out, "wrong %ld\n", wrong);
	fclose(out);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
"""
# After a fork both processes write some of their pages, in several mappings, which around.c makes writable in groups.
PAGES = r"""
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 61
#define AT(area, page) (area)[(page) * 4096 + 17]

static unsigned char stored[PAGES * 4096] = { 1 };

static int wrong(const unsigned char *area, int every, int value)
{
	int found = 0;

	for (int page = 0; page < PAGES; page++)
		found += AT(area, page) != (every && page % every == 0 ? value : page);
	return found;
}

static void set(unsigned char *area, int every, int value)
{
	for (int page = 0; page < PAGES; page += every)
		AT(area, page) = value;
}

static void forbidden(int signal, siginfo_t *info, void *context)
{
	_exit(info->si_code == SEGV_ACCERR ? 0 : 1);
}

int main(void)
{
	struct sigaction action = { .sa_sigaction = forbidden, .sa_flags = SA_SIGINFO };
	int file = open("/results/file", O_RDWR | O_CREAT, 0600), status, found = 0;
	unsigned char *own, *of_file, *shared;
	FILE *out;

	for (int page = 0; page < PAGES; page++) {
		unsigned char bytes[4096];

		memset(bytes, page, sizeof(bytes));
		write(file, bytes, sizeof(bytes));
		AT(stored, page) = page;
	}
	own = mmap(NULL, sizeof(stored), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	shared = mmap(NULL, sizeof(stored), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	of_file = mmap(NULL, sizeof(stored), PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
	memcpy(own, stored, sizeof(stored));
	memcpy(shared, stored, sizeof(stored));
	for (int child = 1; child <= 3; child++)
		if (!fork()) {
			unsigned char *areas[] = { own, stored, of_file };

			for (int i = 0; i < 3; i++) {
				found += wrong(areas[i], 0, 0);
				set(areas[i], child + 2, 100 + child);
				usleep(1000);
				found += wrong(areas[i], child + 2, 100 + child);
			}
			AT(shared, child) = 200 + child;
			_exit(found > 0);
		}
	set(own, 2, 99);
	set(stored, 3, 98);
	while (wait(&status) > 0)
		found += status != 0;
	found += wrong(own, 2, 99) + wrong(stored, 3, 98) + wrong(of_file, 0, 0);
	for (int child = 1; child <= 3; child++)
		found += AT(shared, child) != 200 + child;
	/* Beside pages that may be written, one that may not. */
	mprotect(own + 2 * 4096, 4096, PROT_READ);
	if (!fork()) {
		sigaction(SIGSEGV, &action, NULL);
		AT(own, 1) = AT(own, 3) = 7;
		AT(own, 2) = 7;
		_exit(1);
	}
	wait(&status);
	found += status != 0;
	lseek(file, 0, SEEK_SET);
	for (int page = 0; page < PAGES; page++) {
		unsigned char bytes[4096];

		read(file, bytes, sizeof(bytes));
		found += bytes[17] != page;
	}
	out = fopen("/results/said", "w");
	fprintf(out, "wrong %d\n", found);
	fclose(out);
	sync();
	reboot(RB_POWER_OFF);
	return 1;
}
"""
COMMAND_LINE = (
    "root=/dev/root rootfstype=hostfs rootflags=/proc/self/cwd/root rw init=/init time-travel=inf-cpu time-travel-start=1735689600 "
    "con=null con0=null con1=null quiet mem=256M thash_entries=128 uhash_entries=128"
)


def built() -> list[str]:
    return sorted({Recipe.load(place).name for place in places()})


@pytest.fixture(params=built() or [None])
def kernel(request: pytest.FixtureRequest) -> linux.Kernel:
    """Each kernel that is there."""
    if request.param is None:
        lacking("linux", "no kernel is there: polypath linux build 6.12")
    return linux.find(request.param)


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """PROBE, REGISTERS and PAGES, compiled."""
    folder = tmp_path_factory.mktemp("programs")
    for name, text in (("probe", PROBE), ("registers", REGISTERS), ("pages", PAGES)):
        (folder / f"{name}.c").write_text(text)
        subprocess.run(["gcc", "-O1", "-w", "-static", "-pthread", "-o", folder / name, folder / f"{name}.c"], check=True)
    return {name: folder / name for name in ("probe", "registers", "pages")}


@pytest.fixture
def ask(tmp_path: Path, programs: dict[str, Path]) -> Callable[..., str]:
    """Runs a program in a machine; what it said."""

    def run(file: Path, seed: int = 1, program: str = "probe") -> str:
        folder = tmp_path / f"machine{len(list(tmp_path.iterdir()))}"
        root = folder / "root"
        for name in ("results", "proc", "dev"):
            (root / name).mkdir(parents=True)
        shutil.copy(programs[program], root / "init")
        environment = {"UML_SEED": str(seed), "GLIBC_TUNABLES": "glibc.pthread.rseq=0", "HOME": str(folder), "TMPDIR": str(folder)}
        command = ["setarch", "-R", str(file), *COMMAND_LINE.split()]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
        )
        said = root / "results" / "said"
        assert said.exists(), f"the machine said nothing:\n{done.stdout.decode()[-2000:]}{done.stderr.decode()[-2000:]}"
        return said.read_text()

    return run


def values(said: str, head: str) -> dict[str, str]:
    lines = [line.split(maxsplit=2) for line in said.splitlines() if line.startswith(f"{head} ")]
    return {line[1]: line[2] if len(line) > 2 else "" for line in lines}


def test_it_runs_and_carries_data_with_every_algorithm(kernel: linux.Kernel, ask: Callable[..., str]) -> None:
    said = ask(kernel.file)
    assert f"release {kernel.release}\n" in said
    windows = {name: int(window) for name, window in values(said, "window").items()}
    assert set(windows) == set(kernel.algorithms)
    assert {f"pp_{file.stem}" for file in _link.algorithms(_link.sources())} <= set(windows)
    assert min(windows.values()) >= 2


def test_reno_of_both_sources_agrees(kernel: linux.Kernel, ask: Callable[..., str]) -> None:
    windows = values(ask(kernel.file), "window")
    assert windows["reno"] == windows["pp_reno"]


def test_nothing_of_the_host_shows(kernel: linux.Kernel, ask: Callable[..., str]) -> None:
    said = ask(kernel.file)
    assert os.uname().release not in said
    assert values(said, "cpu")["host"] == ": Linux host 0 0 x86_64"
    assert values(said, "cpu")["flags"] == ": fpu tsc cx8 cmov fxsr sse sse2 ss syscall nx lm"
    # Neither when nor by whom it was built.
    assert "version #1 Wed Jan  1 00:00:00 UTC 2025\n" in said


def test_chance_is_the_seeds(kernel: linux.Kernel, ask: Callable[..., str]) -> None:
    first = ask(kernel.file, 1)
    assert ask(kernel.file, 1) == first
    assert values(ask(kernel.file, 2), "random") != values(first, "random")


def test_programs_keep_their_registers(kernel: linux.Kernel, ask: Callable[..., str]) -> None:
    assert ask(kernel.file, program="registers") == "wrong 0\n"


def test_a_fork_shares_no_writes(kernel: linux.Kernel, ask: Callable[..., str]) -> None:
    assert ask(kernel.file, program="pages") == "wrong 0\n"


def linking(place: Path) -> AbstractContextManager[None]:
    """Nobody else links a kernel meanwhile: other tests run beside these."""
    return locked(place / ".lock", "another process links this kernel")


@pytest.fixture
def cc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of cc/ that may be changed."""
    copy = shutil.copytree(_link.sources(), tmp_path / "cc")
    monkeypatch.setenv("POLYPATH_CC", str(copy))
    return copy


def test_a_new_algorithm_is_linked_to_the_kernel_that_is_there(kernel: linux.Kernel, cc: Path, ask: Callable[..., str]) -> None:
    (cc / "algs" / "fixed.c").write_text(FIXED)
    compiled = kernel.file.parent / "vmlinux.o"
    before = compiled.stat()
    began = time.monotonic()
    changed = linux.find(kernel.name)
    print(f"linked in {time.monotonic() - began:.1f} s")
    try:
        # Seconds, since nothing of Linux is compiled.
        assert (compiled.stat().st_ino, compiled.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        assert changed.key != kernel.key
        assert set(changed.algorithms) == {*kernel.algorithms, "pp_fixed"}
        assert values(ask(changed.file), "window")["pp_fixed"] == str(WINDOW)
    finally:
        changed.file.with_suffix(".json").unlink()
        changed.file.unlink()


def test_where_the_sources_lie_does_not_matter(kernel: linux.Kernel, cc: Path) -> None:
    recipe = Recipe.load(kernel.file.parent)
    output = recipe.place / "linux-again"
    try:
        with linking(recipe.place):
            _link._link(recipe, cc, [], output)
        assert output.read_bytes() == kernel.file.read_bytes()
    finally:
        output.unlink(missing_ok=True)
        output.with_suffix(".json").unlink(missing_ok=True)


def test_a_mistake_is_shown_with_file_and_line(kernel: linux.Kernel, cc: Path) -> None:
    (cc / "algs" / "fixed.c").write_text(FIXED.replace("pp_half(c->flow)", "pp_half(c->flo)"))
    with pytest.raises(KernelError, match=r"(?s)compiling the congestion control fixed for Linux.*algs/fixed\.c:7:\d+: error: .*flo"):
        linux.find(kernel.name)
    with linking(kernel.file.parent):
        assert not list(kernel.file.parent.glob(".link-*"))


@pytest.mark.parametrize("version", ["6.1", "6.12"])
def test_edits_fit_the_sources(version: str, tmp_path: Path) -> None:
    tarball = Path(f"/usr/src/linux-source-{version}.tar.xz")
    if not tarball.exists():
        lacking("linux", f"no sources of Linux {version}: install the Debian package linux-source-{version}")
    wanted = {edit.file for edit in _edits.EDITS}
    with tarfile.open(tarball, "r|xz") as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if inside in wanted:
                (tmp_path / inside).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / inside).write_bytes(archive.extractfile(member).read())  # type: ignore[union-attr]
                wanted.remove(inside)
            if not wanted:
                break
    assert set(_edits.apply(tmp_path, version)) == {edit.file for edit in _edits.EDITS}
    assert not _features.is_v0(tmp_path)
