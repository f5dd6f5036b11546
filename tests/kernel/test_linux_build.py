"""The kernels of the linux engine as they are on this machine."""

import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest
from one_program import compiled, what_it_says
from requirement import lacking

from polypath import linux
from polypath.engines import pairs, run_script
from polypath.linux import KernelError, _edits, _features, _link
from polypath.linux._commands import locked
from polypath.linux._recipe import TREE, Recipe

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

# A machine's only program: data over the loopback with each algorithm, and its window.
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


@pytest.fixture(scope="session")
def probe(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("programs") / "probe", PROBE)


@pytest.fixture
def ask(tmp_path, probe):
    """Runs the probe in a machine; what it said."""

    def run(file, seed=1):
        return what_it_says(file, probe, tmp_path, seed=seed)

    return run


def values(said, head):
    lines = [line.split(maxsplit=2) for line in said.splitlines() if line.startswith(f"{head} ")]
    return {line[1]: line[2] if len(line) > 2 else "" for line in lines}


def test_it_runs_with_every_algorithm_and_nothing_of_the_host_shows(kernel, ask):
    said = ask(kernel.file)
    assert f"release {kernel.release}\n" in said
    windows = {name: int(window) for name, window in values(said, "window").items()}
    assert set(windows) == set(kernel.algorithms)
    assert {f"pp_{file.stem}" for file in _link.algorithms(_link.sources())} <= set(windows)
    assert min(windows.values()) >= 2
    assert windows["reno"] == windows["pp_reno"]
    assert os.uname().release not in said
    assert values(said, "cpu")["host"] == ": Linux host 0 0 x86_64"
    assert values(said, "cpu")["flags"] == ": fpu tsc cx8 cmov fxsr sse sse2 ss syscall nx lm"
    # Neither when nor by whom it was built.
    assert "version #1 Wed Jan  1 00:00:00 UTC 2025\n" in said
    assert ask(kernel.file, 1) == said
    assert values(ask(kernel.file, 2), "random") != values(said, "random")


def test_a_call_of_a_program_gets_its_own_result(kernel, tmp_path):
    # 6.1 reads a process's registers whenever it switches to it, also behind a call.
    script = tmp_path / "script"
    script.write_text("for i in 1 2 3; do /usr/bin/env python3 -c 'import json, socket, subprocess; print(1)' || exit 1; done\n")
    assert run_script(script, kernel=kernel.file, seed=1, out=None, timeout_s=300) == (0, "1\n1\n1\n")


def test_ours_is_the_kernels_own_where_names_are_the_same(kernel):
    found = pairs(kernel)
    assert len(found) >= 15
    assert [pair.difference for pair in found if pair.difference] == []
    assert {pair.name for pair in found if not pair.same} <= {pair.name for pair in found if pair.allowed}


def linking(place):
    """Nobody else links a kernel meanwhile: other tests run beside these."""
    return locked(place / ".lock")


@pytest.fixture
def cc(tmp_path, monkeypatch):
    """A copy of cc/ that may be changed."""
    copy = shutil.copytree(_link.sources(), tmp_path / "cc")
    monkeypatch.setenv("POLYPATH_CC", str(copy))
    return copy


def test_a_new_algorithm_is_linked_to_the_kernel_that_is_there(kernel, cc, ask):
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


def test_where_the_sources_lie_does_not_matter(kernel, cc):
    recipe = Recipe.load(kernel.file.parent)
    output = recipe.place / "linux-again"
    try:
        with linking(recipe.place):
            _link._link(recipe, cc, [], output)
        assert output.read_bytes() == kernel.file.read_bytes()
    finally:
        output.unlink(missing_ok=True)
        output.with_suffix(".json").unlink(missing_ok=True)


def test_a_mistake_is_shown_with_file_and_line(kernel, cc):
    (cc / "algs" / "fixed.c").write_text(FIXED.replace("pp_half(c->flow)", "pp_half(c->flo)"))
    with pytest.raises(KernelError, match=r"(?s)compiling the congestion control fixed for Linux.*algs/fixed\.c:7:\d+: error: .*flo"):
        linux.find(kernel.name)
    with linking(kernel.file.parent):
        assert not list(kernel.file.parent.glob(".link-*"))


def test_headers_of_an_out_of_tree_kernel_fit_too(kernel, tmp_path):
    """Linux 5.4 has no list of what is to happen when, and MPTCP 0.96 asks of tcp_get_info()
    whether the socket is locked.
    """
    recipe = Recipe.load(kernel.file.parent)
    tree = shutil.copytree(recipe.place / TREE, tmp_path / "tree")
    list_ = tree / "arch/um/include/linux/time-internal.h"
    list_.rename(list_.with_name("elsewhere.h"))
    info = "void tcp_get_info(struct sock *, struct tcp_info *"
    for file, theirs, out_of_tree in (
        ("arch/x86/um/asm/processor.h", "<linux/time-internal.h>", "<linux/elsewhere.h>"),
        ("arch/um/include/asm/delay.h", "<linux/time-internal.h>", "<linux/elsewhere.h>"),
        ("include/net/tcp.h", f"{info});", f"{info}, bool);"),
    ):
        text = (tree / file).read_text()
        assert text.count(theirs) == 1
        (tree / file).write_text(text.replace(theirs, out_of_tree))
    for name in _link.KERNEL_SIDE:
        subprocess.run([*recipe.compile, "-fsyntax-only", _link.sources() / "kernel" / f"{name}.c"], cwd=tree, check=True)


@pytest.mark.parametrize("version", ["6.1", "6.12"])
def test_edits_fit_the_sources(version, tmp_path):
    tarball = Path(f"/usr/src/linux-source-{version}.tar.xz")
    if not tarball.exists():
        lacking("linux", f"no sources of Linux {version}: install the Debian package linux-source-{version}")
    wanted = {edit.file for edit in _edits.EDITS}
    with tarfile.open(tarball, "r|xz") as archive:
        for member in archive:
            inside = member.name.partition("/")[2]
            if inside in wanted:
                (tmp_path / inside).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / inside).write_bytes(archive.extractfile(member).read())
                wanted.remove(inside)
            if not wanted:
                break
    assert set(_edits.apply(tmp_path, version)) == {edit.file for edit in _edits.EDITS}
    assert not _features.is_v0(tmp_path)
