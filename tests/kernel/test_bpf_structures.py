"""What objects for BPF know of the kernel (cc/bpf/pp_kernel.h) against the headers of every kernel
that was built: an object finds a field by its name and a constant not at all.
"""

import re
import subprocess

from polypath.linux import _link
from polypath.linux._recipe import TREE, Recipe

# What of pp_kernel.h and pp_socket.h the headers have under another name.
CONSTANTS = {
    "PP_TCP_ESTABLISHED": "TCP_ESTABLISHED",
    "PP_TCP_CLOSE": "TCP_CLOSE",
    "PP_TCP_CLOSE_WAIT": "TCP_CLOSE_WAIT",
    "PP_TCP_LISTEN": "TCP_LISTEN",
    "PP_TCP_CONG_NON_RESTRICTED": "TCP_CONG_NON_RESTRICTED",
    "PP_TCP_CONG_NEEDS_ECN": "TCP_CONG_NEEDS_ECN",
    "PP_TCP_CONGESTION": "TCP_CONGESTION",
    "PP_SO_MAX_PACING_RATE": "SO_MAX_PACING_RATE",
    "PP_ECN_DEMAND_CWR": "TCP_ECN_DEMAND_CWR",
    "PP_ACK_PENDING_TIMER": "ICSK_ACK_TIMER",
    "PP_ACK_PENDING_NOW": "ICSK_ACK_NOW",
}
# What some kernels do not have.
ONLY_WITH = {"mptcp": "-DPP_KERNEL_MPTCP", "last_end_seq": "-DPP_KERNEL_LAST_END_SEQ", "tx_start": "-DPP_KERNEL_TX_START"}
FIELD = re.compile(r"(?P<struct>struct \w+ )?[^;(]*?(?:\(\*(?P<hook>\w+)\)\([^;]*|(?P<name>[\w.]+)(?:\[\d+\])?)(?P<bits> : \d+)?$")


def checks(view):
    """A statement a field of each structure of this header, which fails where the kernel has none of
    its name and size.
    """
    view = re.sub(r"/\*.*?\*/", "", view, flags=re.DOTALL).replace("\\\n", "")
    macro = (re.search(r"^#define PP_TCP_CONGESTION_OPS(.*)$", view, re.MULTILINE) or [""] * 2)[1]
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", view, re.MULTILINE | re.DOTALL):
        # One structure has a part without a name of its own.
        body = re.sub(r"struct \{\s*(\w+) (\w+);\s*\} (\w+);", r"\1 \3.\2;", body)
        theirs = name.partition("___")[0]
        for field in filter(None, map(str.strip, body.replace("PP_TCP_CONGESTION_OPS", macro).split(";"))):
            found = FIELD.match(field)
            word = found["hook"] or found["name"]
            # Of a structure within one only some fields are known, and bits have no size.
            partly = found["bits"] or (found["struct"] and "*" not in field)
            has = f"sizeof(((struct {theirs} *)0)->{word}{' + 0' if found['bits'] else ''})"
            size = "> 0" if partly else f"== sizeof(((struct pp_{name} *)0)->{word})"
            yield f'_Static_assert({has} {size}, "{name}.{word}");'


def program(recipe, cc):
    """All of them, and of the constants, for the headers of one kernel."""
    view = (cc / "bpf/pp_kernel.h").read_text()
    own = re.sub(r"^typedef .*;$|^#(?:define NULL|pragma|define BPF).*$", "", view, flags=re.MULTILINE)
    own = re.sub(r"struct (?=\w)", "struct pp_", own)
    without = [word for word, define in ONLY_WITH.items() if define not in recipe.compile]
    lines = ["#include <net/tcp.h>", *([] if "mptcp" in without else ['#include "net/mptcp/protocol.h"']), own]
    lines += re.findall(r"^#define PP_(?:ECN|ACK)_\w+ \d+$", (cc / "include/pp_socket.h").read_text(), re.MULTILINE)
    lines += [check for check in checks(view) if not any(word in check for word in without)]
    lines += [f'_Static_assert({ours} == {theirs}, "{ours}");' for ours, theirs in CONSTANTS.items()]
    lines += ["#ifndef TCP_ECN_OK", "#define TCP_ECN_OK TCP_ECN_MODE_ANY", "#endif"]
    lines += ['_Static_assert((PP_TCP_ECN_OK & TCP_ECN_OK) == TCP_ECN_OK, "PP_TCP_ECN_OK");']
    return "\n".join(lines) + "\n"


def compiled(recipe, text):
    words = [*recipe.compile[:-1], "-fsyntax-only", "-x", "c", "-"]
    return subprocess.run(words, cwd=recipe.place / TREE, input=text, capture_output=True, text=True, check=False)


def test_fields_and_constants_of_objects_are_those_of_the_kernel(kernel):
    recipe, cc = Recipe.load(kernel.file.parent), _link.sources()
    text = program(recipe, cc)
    assert text.count("_Static_assert") > 80
    done = compiled(recipe, text)
    assert done.returncode == 0, "".join(line for line in done.stderr.splitlines(keepends=True) if "error" in line)


def test_fields_of_schedulers_are_those_of_a_kernel_with_their_hooks(kernel):
    recipe, cc = Recipe.load(kernel.file.parent), _link.sources()
    view = (cc / "bpf/pp_mptcp.h").read_text()
    own = re.sub(r"struct (?=\w)", "struct pp_", "".join(re.findall(r"^struct \w+ \{\n.*?^\};\n", view, re.MULTILINE | re.DOTALL)))
    # Structures within others are known by pointers alone here.
    own = re.sub(r"struct pp_(?:list_head|inet_connection_sock) (\w+);", r"char \1;", own)
    wanted = [check for check in checks(view) if not re.search(r'"mptcp_(?:subflow_context.node|sock.(?:sk|conn_list))"', check)]
    includes = ["#include <net/tcp.h>", "#include <net/mptcp.h>", '#include "net/mptcp/protocol.h"']
    done = compiled(recipe, "\n".join([*includes, own, *wanted]) + "\n")
    has_hooks = "(*get_send)" in (recipe.place / TREE / "include/net/mptcp.h").read_text()
    wrong = [line for line in done.stderr.splitlines() if "error" in line]
    assert (not wrong) == has_hooks, wrong
    assert has_hooks or any("get_send" in line or "mptcp_sched_ops" in line for line in wrong), wrong


def test_a_field_that_a_kernel_has_otherwise_is_named(kernel):
    recipe, cc = Recipe.load(kernel.file.parent), _link.sources()
    wrong = program(recipe, cc).replace("->snd_cwnd)", "->snd_window)", 1).replace("__u32 lost;", "__u64 lost;")
    said = compiled(recipe, wrong).stderr
    assert re.search(r"has no member named .snd_window", said)
    assert '"tcp_sock.lost"' in said
