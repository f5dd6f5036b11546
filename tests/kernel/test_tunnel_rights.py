"""What the tunnel daemon may do on its machine, and who may command it."""

import os
import re
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tunnel_network import NAMES, PATIENCE, PROGRAM, carried, command, connected, inside, ip, pings, until

# CAP_NET_ADMIN is number 12.
NET_ADMIN = 1 << 12


def about(pid):
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {name: value.strip() for name, value in (line.split(":", 1) for line in lines)}


def helper(pid):
    """The process that reads files for a daemon."""
    (found,) = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return found


def test_the_daemon_is_no_root_keeps_one_capability_and_can_gain_none(tunnel):
    tunnel.both()
    for end in (0, 1):
        status = tunnel.status(end)
        threads = [int(task.name) for task in Path(f"/proc/{status['pid']}/task").iterdir()]
        assert len(threads) == 3
        for thread in threads:
            found = about(thread)
            capabilities = [int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")]
            assert capabilities == [0, NET_ADMIN, NET_ADMIN, NET_ADMIN, 0]
            assert found["NoNewPrivs"] == "1"
            # A filter of system calls.
            assert found["Seccomp"] == "2"
            users = {int(user) for name in ("Uid", "Gid") for user in found[name].split()}
            assert users == {status["user"]} and 0 not in users and found["Groups"] == ""
        assert status["system_calls_filtered"]
        # Not even what is its own: nobody but root traces it or gets an image of its memory.
        assert Path(f"/proc/{status['pid']}/mem").stat().st_uid == 0
        files = about(helper(status["pid"]))
        assert [int(files[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
        assert files["NoNewPrivs"] == "1"


def test_who_takes_the_daemon_over_writes_no_file_of_roots_and_reads_no_secret(tunnel):
    tunnel.both_encrypted()
    found = about(tunnel.status(0)["pid"])
    secret = Path("/run/polypath/secret")
    secret.write_text("root alone")
    secret.chmod(0o600)
    try:
        # A program with the daemon's rights, without its filter of system calls.
        (user,), (group,) = ({int(number) for number in found[name].split()} for name in ("Uid", "Gid"))
        words = ["setpriv", "--reuid", str(user), "--regid", str(group), "--clear-groups", "--no-new-privs"]
        words += ["--bounding-set", "-all,+net_admin", "--inh-caps", "-all,+net_admin", "--ambient-caps", "-all,+net_admin"]
        for attempt in (f"cat {secret}", f"echo x >> {secret}", "echo x > /run/polypath/new", "cat /etc/shadow", f"kill {os.getpid()}"):
            done = subprocess.run([*words, "sh", "-c", attempt], capture_output=True, text=True, timeout=PATIENCE, check=False)
            assert done.returncode != 0, attempt
            assert re.search("[Pp]ermission denied|not permitted", done.stderr), done.stderr
        assert secret.read_text() == "root alone"
    finally:
        secret.unlink()
        Path("/run/polypath/new").unlink(missing_ok=True)


def test_a_daemon_without_rights_reads_its_file_and_keys_again_and_makes_another_device(tunnel):
    tunnel.both_encrypted()
    client, server = connected()
    carried(client, server, 500_000)
    # New keys for end 1, and another device there with another number of paths.
    public = command(str(PROGRAM), "keygen", str(tunnel.folder / "new.key")).stdout.strip()
    files = [tunnel.folder / f"ppt-{end + 1}.toml" for end in (0, 1)]
    files[1].write_text(files[1].read_text().replace('"b.key"', '"new.key"'))
    text = re.sub(r'peer_public_key = ".*"', f'peer_public_key = "{public}"', files[0].read_text())
    files[0].write_text(text.replace('device = "ppt0"', 'device = "ppt1"'))
    pids = [tunnel.status(end)["pid"] for end in (0, 1)]
    for end in (1, 0):
        os.kill(pids[end], signal.SIGHUP)
    until(lambda: tunnel.status(0)["device"] == "ppt1", "the file is read")
    assert "ppt0" not in ip(0, "link")
    for end in (0, 1):
        until(lambda end=end: tunnel.status(end)["encryption"]["session_age_s"] is not None, "they agree with the new keys")
    assert pings(0, "10.99.0.2") >= 19
    assert [tunnel.status(end)["pid"] for end in (0, 1)] == pids
    # What others may read is no key, now as at the start.
    (tunnel.folder / "a.key").chmod(0o644)
    os.kill(pids[0], signal.SIGHUP)
    log = Path("/run/polypath/tunnel-ppt-1.log")
    until(lambda: "others may read" in log.read_text(), "it is refused")
    until(lambda: pings(0, "10.99.0.2", count=3) == 3, "the old settings stay")


def test_the_process_that_reads_files_ends_with_the_daemon_and_its_loss_is_said(tunnel):
    tunnel.both()
    pids = [tunnel.status(end)["pid"] for end in (0, 1)]
    helpers = [helper(pid) for pid in pids]

    def has_ended(pid):
        try:
            return about(pid)["State"].startswith("Z")
        except FileNotFoundError:
            return True

    os.kill(pids[1], signal.SIGKILL)
    until(lambda: has_ended(helpers[1]), "nobody needs it")
    os.kill(helpers[0], signal.SIGKILL)
    os.kill(pids[0], signal.SIGHUP)
    log = Path("/run/polypath/tunnel-ppt-1.log")
    until(lambda: "the old settings stay: the process that reads the tunnel's files does not answer" in log.read_text(), "it is said")
    assert tunnel.status(0)["pid"] == pids[0]
    command(str(PROGRAM), "down", "ppt-2", check=False)
    tunnel.start(1)
    assert pings(0, "10.99.0.2") >= 19
    done = command(str(PROGRAM), "down", "ppt-2")
    assert done.stdout == "down ppt-2\n" and not Path("/run/polypath/tunnel-ppt-2.sock").exists()


@pytest.mark.parametrize("user", [0, 65534])
def test_only_root_takes_the_tunnel_of_a_run_down(tunnel, user):
    file = tunnel.write(0)
    words = ["ip", "netns", "exec", NAMES[0], str(PROGRAM), "run", str(file), "--private"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline().startswith("up ")

        def ask():
            asking = socket.socket(socket.AF_UNIX)
            # The kernel tells the user of the moment.
            os.seteuid(user)
            try:
                asking.connect("\0polypath-tunnel-ppt-1")
            finally:
                os.seteuid(0)
            return asking

        try:
            with inside(0, ask) as asking:
                asking.settimeout(PATIENCE)
                said = b""
                asking.sendall(b"down")
                while part := asking.recv(1000):
                    said += part
            if user:
                assert said == b"only root may ask, and who started the tunnel"
                assert ip(0, "link", "show", "ppt0")
                assert daemon.poll() is None
            else:
                assert said == b"" and daemon.wait(PATIENCE) == 0
        finally:
            daemon.terminate()


def test_a_key_of_another_user_is_refused(tunnel):
    tunnel.encrypt()
    os.chown(tunnel.folder / "a.key", 1000, 1000)
    done = command(str(PROGRAM), "check", str(tunnel.folder / "ppt-1.toml"), check=False)
    assert done.returncode == 2 and "a.key belongs to user 1000, who may read and change it: chown root" in done.stderr


def test_where_there_is_no_other_user_it_is_said_that_the_daemon_is_root(tunnel):
    """A user namespace whose only user is root, as rootless containers may have it."""
    file = tunnel.write(0, outer="127.0.{path}.{end}")
    words = ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c"]
    script = f"mount -t tmpfs none /run && ip link set lo up && {PROGRAM} up {file} && {PROGRAM} status && "
    script += f"cat /run/polypath/*.log && {PROGRAM} down"
    done = subprocess.run([*words, script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "the daemon runs as root, since this machine lets it become no other user" in done.stdout
    assert "polypath-tunnel: the daemon stays root: " in done.stdout
