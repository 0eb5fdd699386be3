# SPDX-License-Identifier: Apache-2.0
"""posectl record repair: a recording that is cut anywhere, or damaged inside, becomes a file that
the official library reads by its summary, with the messages that were whole; what is there is never
written over."""
import json
import os
import resource
import subprocess

import harness
from harness import BINARY, SOURCE, check

CHUNK, DATA_END = 0x06, 0x0F
N_FRAMES = 60  # two seconds: several chunks
PYTHON = os.environ.get("POSED_MCAP_PYTHON") or SOURCE + "/build/mcap-python/bin/python3"

READER = """
import hashlib, json, sys
from mcap.reader import make_reader
with open(sys.argv[1], "rb") as file:
    reader = make_reader(file, validate_crcs=True)
    summary = reader.get_summary()
    out = [[c.topic, m.log_time, m.sequence, hashlib.sha256(m.data).hexdigest()]
           for _, c, m in reader.iter_messages()]
    counts = {summary.channels[i].topic: n
              for i, n in summary.statistics.channel_message_counts.items()}
    s = summary.statistics
    print(json.dumps([out, counts, s.message_count, s.chunk_count, len(summary.chunk_indexes),
                      s.message_start_time, s.message_end_time]))
"""


def read(path):
    done = subprocess.run([PYTHON, "-c", READER, path], capture_output=True, text=True,
                          timeout=harness.PATIENCE_S)
    check(done.returncode == 0, f"{path}: {done.stderr}")
    messages, counts, n, n_chunks, n_indexes, begin, end = json.loads(done.stdout)
    for topic, count in counts.items():
        check(count == sum(m[0] == topic for m in messages), f"{path}: {count} of {topic}")
    check(n == len(messages) and n_chunks == n_indexes > 0, f"{path}: the statistics")
    check((begin, end) == (min(m[1] for m in messages), max(m[1] for m in messages)), "the times")
    return messages


def repair(code, *arguments):
    done = subprocess.run([BINARY + "/bin/posectl", "record", "repair", *arguments],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)
    check(done.returncode == code, f"{arguments}: {done}")
    return done


def record(folder, name, kind):
    daemon = harness.Daemon("synth:room", "--frames", str(N_FRAMES), "--set",
                            "recorder.folder=" + folder, "--set", "recorder.start=" + name, "--set",
                            "recorder.format=" + kind, "--set", f"recorder.queue_frames={N_FRAMES}")
    daemon.wait()


def check_damages(path, out, whole, expected):
    """What is lost is said, to the byte, and never that nothing is to mend."""
    at, chunks, end = 8, [], 0  # records: where, and how long with their heads
    while not end:
        n = 9 + int.from_bytes(whole[at + 1:at + 9], "little")
        if whole[at] == CHUNK:
            chunks.append((at, n))
        end = at if whole[at] == DATA_END else 0
        at += n
    (second, n_second), after = chunks[1], end + 13
    n_to_third = chunks[2][0] - second  # where the file's index says that a chunk begins

    def put(where, *what):
        return whole[:where] + bytes(what) + whole[where + len(what):]

    long = (1 << 62).to_bytes(8, "little")
    for case, data, n_lost, n_whole in (
            ("two files in one", whole + whole[8:], len(whole) - 8, 0),
            ("one that lacks its summary, and another", whole[:after] + whole, len(whole), 0),
            ("zeros behind the data", whole[:end] + bytes(900), 0, 0),
            ("a summary that lacks its end", whole[:-20], 0, 0),
            ("a damaged record of the summary", put(after, 0x06), 0, 0),
            ("a chunk as index", put(second, 0x07), n_to_third, 1),
            ("a chunk as footer", put(second, 0x02), n_to_third, 1),
            ("a chunk as end of the data", put(second, 0x0F), n_to_third, 1),
            ("a length beyond the file", put(second, 0x0F, *long), n_to_third, 1),
            ("a compression that nobody knows", put(second + 9 + 32, 0x7A ^ 2), n_second, 1)):
        if case == "a compression that nobody knows" and whole[second + 9 + 28] != 4:
            continue  # not compressed
        with open(path, "wb") as file:
            file.write(data)
        done = repair(0, path)
        check("nothing to mend" not in done.stderr, f"{case}: {done.stderr}")
        check(f", {n_lost} bytes lost" in done.stderr, f"{case}: {n_lost} of {done.stderr}")
        check(("it ends in 900 zeros" in done.stderr) == ("zeros" in case), done.stderr)
        messages = read(out)
        missing = len(expected) - len(messages)
        check(missing == 0 if n_whole == 0 else missing > 0, f"{case}: {missing} are missing")
        check(missing < len(expected) // 2, f"{case}: {missing} are missing")
        os.remove(out)


def check_attachments(folder):
    """Attachments and metadata are found by the new summary."""
    path, out = folder + "/attached.mcap", folder + "/attached.repaired.mcap"
    program = """
import sys
from mcap.reader import make_reader
from mcap.writer import Writer
if len(sys.argv) > 2:
    with open(sys.argv[1], "wb") as file:
        writer = Writer(file)
        writer.start()
        schema = writer.register_schema("s", "text", b"")
        channel = writer.register_channel("t", "json", schema)
        writer.add_message(channel, 5, b"{}", 5)
        writer.add_attachment(1, 2, "name", "text/plain", b"data of it")
        writer.add_metadata("about", {"a": "b"})
        writer.finish()
else:
    with open(sys.argv[1], "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        index, = summary.attachment_indexes
        print(index.name, index.media_type, index.data_size, index.log_time, index.create_time,
              len(summary.metadata_indexes), summary.statistics.attachment_count,
              [(a.name, a.data) for a in reader.iter_attachments()],
              [(m.name, m.metadata) for m in reader.iter_metadata()])
"""

    def run(*arguments):
        done = subprocess.run([PYTHON, "-c", program, *arguments], capture_output=True, text=True,
                              timeout=harness.PATIENCE_S)
        check(done.returncode == 0, done.stderr)
        return done.stdout

    run(path, "write")
    expected = run(path)
    check("nothing to mend" in repair(0, path).stderr, "a complete file of another writer")
    with open(path, "r+b") as file:
        file.truncate(os.path.getsize(path) - 12)
    repair(0, path)
    check(run(out) == expected and "data of it" in expected, f"{run(out)} for {expected}")


def record_of(opcode, content):
    return bytes([opcode]) + len(content).to_bytes(8, "little") + content


def text(words):
    return len(words).to_bytes(4, "little") + words


def message(channel, time):
    return record_of(5, channel.to_bytes(2, "little") + bytes(4) +
                     2 * time.to_bytes(8, "little") + b"{}")


def check_malformed_records(folder):
    """Records whose contents are not what they say are lost and counted, in the file and in a
    chunk, and so are messages without a channel: the library reads what there is besides."""
    path, out = folder + "/records.mcap", folder + "/records.repaired.mcap"
    header = record_of(1, text(b"") + text(b"x"))
    schema = record_of(3, b"\1\0" + text(b"s") + text(b"text") + text(b""))
    channels = [record_of(4, bytes([i, 0, 1, 0]) + text(topic) + text(b"json") + text(b""))
                for i, topic in ((1, b"a"), (2, b"b"))]
    messages = [message(i, 10 * i + k) for i in (1, 2) for k in range(3)]
    long = (0x7fffffff).to_bytes(4, "little")
    no_schema = record_of(4, b"\1\0\7\0" + text(b"a") + text(b"json") + text(b""))

    def body(schema=schema, first=channels[0]):
        return [schema, first, channels[1]] + messages

    def cut(record, at):  # a length in it that leads out of it
        return record[:9 + at] + long + record[9 + at + 4:]

    n_head, n_messages = len(header), len(messages[0])
    bad_channel, n_channel = cut(channels[0], 4), len(channels[0])
    for case, head, records, n_lost, n_whole in (
            ("a header", cut(header, 0), body(), n_head, 6),
            ("a header that became a schema", b"\3" + header[1:], body(), n_head, 6),
            ("a schema", header, body(schema=cut(schema, 2)), len(schema) + 2 * n_channel +
             6 * n_messages, 0),
            ("a channel", header, body(first=bad_channel), n_channel + 3 * n_messages, 3),
            ("its metadata", header, body(first=cut(channels[0], n_channel - 9 - 4)),
             n_channel + 3 * n_messages, 3),
            ("a channel of no schema", header, body(first=no_schema), n_channel + 3 * n_messages,
             3),
            ("a message", header, body() + [record_of(5, b"\1\0")], 11, 6),
            ("an attachment", header, body() + [record_of(9, bytes(16) + long)], 29, 6),
            ("metadata", header, body() + [record_of(12, text(b"m") + long)], 18, 6)):
        for is_chunk in (False, True):
            data = b"".join(records)
            if is_chunk and case in ("an attachment", "metadata"):  # none stands in a chunk
                continue
            if is_chunk:
                content = (10).to_bytes(8, "little") + (22).to_bytes(8, "little") + len(
                    data).to_bytes(8, "little") + bytes(8) + len(data).to_bytes(8, "little") + data
                data = record_of(6, content)
            with open(path, "wb") as file:
                file.write(b"\x89MCAP0\r\n" + head + data + record_of(15, bytes(4)))
            if n_whole == 0:
                check("no whole message" in repair(1, path).stderr, case)
                continue
            done = repair(0, path)
            check(f", {n_lost} bytes lost" in done.stderr, f"{case}: {n_lost} of {done.stderr}")
            if not is_chunk:  # without chunks this reader has no messages to offer
                data = READER.replace("make_reader(file", "NonSeekingReader(file").replace(
                    "make_reader", "NonSeekingReader").replace("reader.get_summary()", "None")
                data = data[:data.index("    counts")] + "    print(len(out))\n"
                read_all = subprocess.run([PYTHON, "-c", data, out], capture_output=True,
                                          text=True, timeout=harness.PATIENCE_S)
                check(read_all.stdout == f"{n_whole}\n", f"{case}: {read_all}")
            else:
                check(len(read(out)) == n_whole, case)
            check("nothing to mend" in repair(0, out).stderr, case)
            os.remove(out)


def check_mcap(folder, name, suffix, n_cuts):
    with open(f"{folder}/{name}{suffix}", "rb") as file:
        whole = file.read()
    expected, before, path = read(f"{folder}/{name}{suffix}"), 0, f"{folder}/cut{suffix}"
    out = f"{folder}/cut.repaired{suffix}"  # the name of its format still
    cuts = [len(whole) * i // n_cuts for i in range(2, n_cuts)]
    for n in cuts + [len(whole) - 1]:
        with open(path, "wb") as file:
            file.write(whole[:n])
        done = subprocess.run([BINARY + "/bin/posectl", "record", "repair", path],
                              capture_output=True, text=True, timeout=harness.PATIENCE_S)
        if done.returncode:  # nothing whole in it yet
            check(before == 0 and "no whole message" in done.stderr, f"{n}: {done}")
            check(not os.path.exists(out), "nothing is left behind")
            continue
        check(done.stdout == out + "\n", done.stdout)
        messages = read(out)
        check(messages == expected[:len(messages)] or sorted(map(str, messages)) ==
              sorted(map(str, expected[:len(messages)])), f"{n}: other messages")
        check(len(messages) >= before, f"{n}: fewer messages than of a shorter file")
        before = len(messages)
        check(f"{out}: File exists, and is not written over: name the copy with -o" in
              repair(1, path).stderr, "the copy is not written over")
        os.remove(out)
    check(before == len(expected), f"{before} messages of {len(expected)}")
    check_no_room(path, out)
    # Nothing is to mend: no copy, unless one is asked for. A summary that is damaged is to mend.
    done = repair(0, f"{folder}/{name}{suffix}")
    check(done.stdout == f"{folder}/{name}{suffix}\n" and "nothing to mend" in done.stderr, done)
    check(not os.path.exists(f"{folder}/{name}.repaired{suffix}"), "a copy of it")
    done = repair(0, f"{folder}/{name}{suffix}", "-o", out)
    check(done.stdout == out + "\n" and read(out) == expected, done)
    os.remove(out)
    bad = bytearray(whole)
    bad[-60] ^= 0xff
    with open(path, "wb") as file:
        file.write(bad)
    check("nothing to mend" not in repair(0, path).stderr and read(out) == expected, "the summary")
    os.remove(out)
    # A damaged chunk is left out, the others stay.
    bad = bytearray(whole)
    bad[len(whole) // 2] ^= 0xff
    with open(path, "wb") as file:
        file.write(bad)
    repair(0, path, "-o", folder + "/other.mcap")
    messages = read(folder + "/other.mcap")
    check(len(expected) // 4 < len(messages) < len(expected), f"{len(messages)} messages")
    os.remove(folder + "/other.mcap")
    check_damages(path, out, whole, expected)
    # A header that has become a chunk is left out, and another one stands there.
    bad = bytearray(whole)
    bad[8] = 0x06
    with open(path, "wb") as file:
        file.write(bad)
    repair(0, path, "-o", folder + "/other.mcap")
    check(read(folder + "/other.mcap") == expected, "all messages without the header")
    os.remove(folder + "/other.mcap")
    print(f"{name}{suffix}: {len(expected)} messages, {len(messages)} without a chunk")


def check_no_room(path, out):
    """The copy is named, not the recording; what there is of it is taken away again."""
    limit = os.path.getsize(path) // 2  # of a file's size: fails the write as a full disk does
    done = subprocess.run([BINARY + "/bin/posectl", "record", "repair", path, "-o", out],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S,
                          restore_signals=False,  # Python ignores SIGXFSZ
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                                (limit, limit)))
    check(done.returncode == 1 and not done.stdout and
          done.stderr == f"posectl: {out}: File too large: nothing is left of this copy, and "
          f"{path} is as it was; -o names another place\n", f"{done}")
    check(not os.path.exists(out), "half a copy")


def check_klg(folder):
    record(folder, "k", "klg")
    with open(folder + "/k.klg", "rb") as file:
        whole = file.read()
    check(int.from_bytes(whole[:4], "little") == N_FRAMES, "the number of frames")
    done = repair(0, folder + "/k.klg")
    check(done.stdout == folder + "/k.klg\n" and "nothing to mend" in done.stderr, done)
    check(not os.path.exists(folder + "/k.repaired.klg"), "a copy of it")
    # As a machine without power leaves it, whose file is longer than what was written, and a daemon
    # that was killed.
    for n_zeros in (8000, 0):
        with open(folder + "/cut.klg", "wb") as file:
            file.write(bytes(4) + whole[4:-1000] + bytes(n_zeros))
        done = repair(0, folder + "/cut.klg")
        with open(folder + "/cut.repaired.klg", "rb") as file:
            repaired = file.read()
        check(int.from_bytes(repaired[:4], "little") == N_FRAMES - 1, "all but the torn frame")
        check(whole[4:].startswith(repaired[4:]), "the frames as they were")
        n_lost = len(whole[:-1000].rstrip(b"\0")) - len(repaired) if n_zeros else \
            len(whole) - 1000 - len(repaired)
        check(f"{N_FRAMES - 1} frames, {n_lost} bytes behind them lost" in done.stderr, done)
        check(("zeros, as a power cut leaves them" in done.stderr) == (n_zeros > 0), done)
        if n_zeros:
            os.remove(folder + "/cut.repaired.klg")
    check_no_room(folder + "/cut.klg", folder + "/none.klg")
    check_sidecar(folder)
    check_no_klg(folder, whole)


def check_no_klg(folder, whole):
    """What is no log is not repaired into one, though a frame can be read of its first bytes."""
    path, out = folder + "/no.klg", folder + "/no.repaired.klg"
    mcap = b"\x89MCAP0\r\n\x01" + (16).to_bytes(8, "little") + bytes(16)
    bag = b"#ROSBAG V2.0\nE\0\0\0\x0d\0\0\0chunk_count=" + bytes(20000)
    torn = (N_FRAMES).to_bytes(4, "little") + whole[4:1000]
    other = "not a klg log, whatever its name says"
    for data, words in ((b"", "the file is empty"), (b"abc", other), (mcap + bytes(4000), other),
                        (bag, other), (bytes(4000), other), (whole[:4] + whole[100:], other),
                        (torn[:4], "no whole frame"), (torn[:15], "no whole frame"),
                        (torn, "no whole frame")):
        with open(path, "wb") as file:
            file.write(data)
        for arguments in ([], ["-o", out]):
            done = repair(1, path, *arguments)
            check(done.stderr.startswith(f"posectl: {path}: {words}"), f"{data[:30]}: {done}")
            check(not done.stdout and not os.path.exists(out), f"{data[:30]}: {done}")
    os.remove(path)


def check_sidecar(folder):
    """Intrinsics and units of a klg stand beside it: a copy without them is another camera's."""
    sidecar, mine = ".calibration.txt", folder + "/mine.klg"
    os.remove(folder + "/cut.repaired.klg")
    os.rename(folder + "/k.klg" + sidecar, folder + "/cut.klg" + sidecar)
    with open(folder + "/cut.klg" + sidecar, "rb") as file:
        text = file.read()
    for arguments, out in (([], folder + "/cut.repaired.klg"), (["-o", mine], mine)):
        repair(0, folder + "/cut.klg", *arguments)
        with open(out + sidecar, "rb") as file:
            check(file.read() == text, out)
        os.remove(out)
        done = repair(1, folder + "/cut.klg", *arguments)  # the sidecar's name is taken
        check(f"{out}{sidecar}: File exists, and is not written over: name the copy with -o" in
              done.stderr and not os.path.exists(out), done)
        os.remove(out + sidecar)
    os.rename(folder + "/cut.klg" + sidecar, folder + "/elsewhere")
    os.symlink("elsewhere", folder + "/cut.klg" + sidecar)
    done = repair(1, folder + "/cut.klg", "-o", mine)
    check(f"cut.klg{sidecar}: a link" in done.stderr and not os.path.exists(mine), done)
    os.remove(folder + "/cut.klg" + sidecar)
    repair(0, folder + "/cut.klg", "-o", mine)
    check(not os.path.exists(mine + sidecar), "there was none")
    daemon = harness.Daemon("klg:" + mine, "--set", "camera.depth_scale=5000")
    daemon.wait()
    check("no mine.klg.calibration.txt: the intrinsics are the format's default" in
          daemon.log(), daemon.log())
    os.remove(mine)


def scenario():
    folder = harness.SCRATCH + "/recordings"
    os.mkdir(folder)
    check_klg(folder)
    check("a folder" in repair(1, folder).stderr, "a folder")
    with open(folder + "/text.mcap", "w", encoding="ascii") as file:
        file.write("hello")
    check("not an MCAP file" in repair(1, folder + "/text.mcap").stderr, "no MCAP file")
    os.truncate(folder + "/text.mcap", 0)
    check("the file is empty" in repair(1, folder + "/text.mcap").stderr, "an empty file")
    repair(2)
    if not os.path.exists(PYTHON):
        print("SKIP: no MCAP library (tools/test installs it from PyPI)")
        return
    check_malformed_records(folder)
    record(folder, "m", "mcap")
    record(folder, "r", "ros2mcap")
    check_mcap(folder, "m", ".mcap", 12)
    check_mcap(folder, "r", ".ros2.mcap", 4)
    check_attachments(folder)


harness.run(scenario)
