#!/usr/bin/env python3
"""make_zoo.py OUT [--seed N] [--big] - a CTF 1.8 trace with fields of every kind, at random.

Numbers of any size, base, sign and alignment, enums, floats, strings, texts, arrays, sequences,
structs and variants, nested, in contexts and payloads; compact, large or odd event headers. Tests
compare what `cuward events` and babeltrace2 make of it.
"""
import argparse
import random
import struct
from pathlib import Path

BYTE = "integer { size = 8; align = 8; signed = false; encoding = UTF8; }"


class Bits:
    """Bits from the start of a packet, in the order of its bytes."""

    def __init__(self, big):
        self.big, self.bits = big, []

    def align(self, to):
        self.bits += [0] * (-len(self.bits) % to)

    def number(self, value, size, big=None):
        bits = [value >> i & 1 for i in range(size)]
        if self.big if big is None else big:
            bits.reverse()
        elif self.big:
            raise ValueError("little in big")
        if big and not self.big:
            # Whole bytes in the other order: each byte's own bits stay as they are here.
            raw = value.to_bytes(size // 8, "big")
            bits = [b >> i & 1 for b in raw for i in range(8)]
        self.bits += bits

    def bytes(self):
        self.align(8)
        out = bytearray()
        for i in range(0, len(self.bits), 8):
            byte = self.bits[i:i + 8]
            if self.big:
                byte.reverse()
            out.append(sum(bit << k for k, bit in enumerate(byte)))
        return bytes(out)


class Zoo:
    def __init__(self, rnd, big):
        self.rnd, self.big = rnd, big
        self.names, self.plain = 0, False

    def name(self):
        self.names += 1
        return "%sf%d" % (self.rnd.choice(["_", "", "__"]), self.names)

    # Each makes (declaration, align, write(bits)), and draws a new value at every write.

    def integer(self, unsigned=False):
        rnd = self.rnd
        size = rnd.choice([1, 3, 5, 7, 8, 12, 16, 24, 27, 32, 33, 48, 63, 64])
        whole = size % 8 == 0
        align = rnd.choice([8, 16, 32, 64] if whole else [1, 1, 1, 8])
        signed = not unsigned and rnd.random() < 0.5
        # In hex babeltrace2 2.0.4 shows 63 bits as 0.
        base = rnd.choice([2, 8, 10, 16] if size != 63 else [2, 8, 10])
        big = self.big
        order = ""
        if whole and align >= 8 and not self.big and rnd.random() < 0.3:
            order, big = " byte_order = be;", True
        text = "integer { size = %d; align = %d; signed = %s; base = %d;%s }" % (
            size, align, rnd.choice([str(signed).lower(), str(int(signed))]), base, order)

        def write(bits):
            value = rnd.choice([0, 1, rnd.getrandbits(size), (1 << size) - 1, 1 << size - 1])
            bits.align(align)
            bits.number(value, size, big)
        return text, align, write

    def floating(self):
        rnd = self.rnd
        exp, mant, code = rnd.choice([(8, 24, "f"), (11, 53, "d")])
        text = "floating_point { exp_dig = %d; mant_dig = %d; align = 8; }" % (exp, mant)

        def write(bits):
            value = rnd.choice([0.0, 1.5, -2.25, 1e10, 3.14159, rnd.random(), -1e-30, float("inf")])
            raw = struct.pack(">" + code, value)
            bits.align(8)
            bits.number(int.from_bytes(raw, "big"), exp + mant)
        return text, 8, write

    # Never empty: for an empty text babeltrace2 2.0.4 may print the one before.
    def text(self):
        return bytes(self.rnd.choice([self.rnd.randrange(1, 256), 97]) for _ in
                     range(self.rnd.choice([1, 2, 5, 20])))

    def string(self):
        def write(bits):
            bits.align(8)
            for byte in self.text() + b"\0":
                bits.number(byte, 8)
        return self.rnd.choice(["string", "string { encoding = UTF8; }"]), 8, write

    def enum(self):
        size = self.rnd.choice([4, 8, 16])
        signed = self.rnd.random() < 0.5
        labels = '"zero" = 0, one, "ten and more" = 10 ... 12, again = 11' + (", minus = -1" if signed else "")
        text = "enum : integer { size = %d; align = 8; signed = %s; } { %s }" % (
            size, str(signed).lower(), labels)

        def write(bits):
            bits.align(8)
            bits.number(self.rnd.choice([0, 1, 2, 10, 11, 12, (1 << size) - 1]), size)
        return text, 8, write

    def fixed_text(self, depth):
        length = self.rnd.choice([1, 4, 9])

        def write(bits):
            bits.align(8)
            for byte in (self.text() + bytes(length))[:length]:
                bits.number(byte, 8)
        return BYTE, 8, write, "[%d]" % length

    def array(self, depth):
        text, align, element = self.scalar() if depth > 2 or self.rnd.random() < 0.7 else self.struct(depth)
        counts = [self.rnd.choice([1, 2, 3]) for _ in range(self.rnd.choice([1, 1, 2]))]

        def write(bits, left=None):
            left = counts if left is None else left
            bits.align(align)
            for _ in range(left[0]):
                element(bits) if len(left) == 1 else write(bits, left[1:])
        return text, align, write, "".join("[%d]" % c for c in counts)

    def scalar(self):
        return self.rnd.choice([self.integer, self.floating, self.string, self.enum])()

    def sequence(self, depth, name):
        """A length and a sequence of that length."""
        is_text = self.rnd.random() < 0.3
        text, align, element = (BYTE, 8, None) if is_text else self.scalar()
        length = "_%s_length" % name
        lines = "integer { size = 8; align = 8; signed = false; } %s; %s %s[%s];" % (
            length, text, name, length)

        def write(bits):
            body = self.text() if is_text else b""
            count = len(body) if is_text else self.rnd.choice([0, 1, 4])
            bits.align(8)
            bits.number(count, 8)
            bits.align(align)
            for i in range(count):
                bits.number(body[i], 8) if is_text else element(bits)
        return lines, max(8, align), write

    def variant(self, depth, name):
        """A tag and a variant that it selects."""
        tag = "%s_tag" % name
        options = [self.scalar() if depth > 2 or self.rnd.random() < 0.6 else self.struct(depth)
                   for _ in range(3)]
        lines = "enum : integer { size = 8; align = 8; } { a = 0, b = 1, c = 5 ... 7 } %s; " % tag
        lines += "variant <%s> { %s } %s;" % (
            tag, " ".join("%s %s;" % (o[0], n) for o, n in zip(options, "abc")), name)

        def write(bits):
            which = self.rnd.randrange(3)
            bits.align(8)
            bits.number([0, 1, self.rnd.randrange(5, 8)][which], 8)
            options[which][2](bits)
        return lines, 8, write

    def member(self, depth):
        name = self.name()
        # Debian's babeltrace2 2.0.4 aborts on lengths and tags in contexts.
        kind = self.rnd.random() if not self.plain else 0.3 + 0.7 * self.rnd.random()
        if kind < 0.12:
            return self.sequence(depth, name)
        if kind < 0.22:
            return self.variant(depth, name)
        if kind < 0.35:
            text, align, write, suffix = self.rnd.choice([self.array, self.fixed_text])(depth)
            return "%s %s%s;" % (text, name, suffix), align, write
        text, align, write = self.struct(depth) if depth < 3 and kind < 0.45 else self.scalar()
        return "%s %s;" % (text, name), align, write

    def struct(self, depth):
        members = [self.member(depth + 1) for _ in range(self.rnd.choice([1, 2, 4]))]
        extra = self.rnd.choice([1, 1, 32])
        align = max([extra] + [m[1] for m in members])

        def write(bits):
            bits.align(align)
            for m in members:
                m[2](bits)
        suffix = " align(%d)" % extra if extra > 1 else ""
        return "struct { %s }%s" % (" ".join(m[0] for m in members), suffix), align, write


HEADERS = {
    "compact": (5, 27, "enum : uint5_t { compact = 0 ... 30, extended = 31 } id;"),
    "large": (16, 32, "enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;"),
}


def preamble(big, kind, odd):
    order = "be" if big else "le"
    text = """/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := unsigned long;
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
trace { major = 1; minor = 8; uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"; byte_order = %s;
 packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; }; };
env { hostname = "zoo"; domain = "ust"; procname = "keeper"; vpid = 4711; };
clock { name = monotonic; freq = %d; offset_s = 1500000000; offset = 250; };
typealias integer { size = 27; align = 1; signed = false; map = clock.monotonic.value; } := t27;
typealias integer { size = 32; align = 8; signed = false; map = clock.monotonic.value; } := t32;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := t64;
""" % (order, 1000000 if odd else 1000000000)
    if kind == "odd":
        return text + "struct header { uint8_t id; t32 timestamp; uint16_t filler; };\n"
    bits, time, enum = HEADERS[kind]
    return text + """struct header { %s variant <id> {
 struct { t%d timestamp; } compact; struct { uint32_t id; t64 timestamp; } extended; } v; } align(8);
""" % (enum, time)


def write_header(bits, rnd, kind, number, time):
    bits.align(8)
    if kind == "odd":
        bits.number(number, 8)
        bits.number(time & 0xffffffff, 32)
        bits.number(0, 16)
        return
    id_bits, time_bits, _ = HEADERS[kind]
    if rnd.random() < 0.3:
        bits.number((1 << id_bits) - 1, id_bits)
        bits.align(8)
        bits.number(number, 32)
        bits.number(time, 64)
    else:
        bits.number(number, id_bits)
        bits.number(time & (1 << time_bits) - 1, time_bits)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--big", action="store_true")
    parser.add_argument("--events", type=int, default=40)
    options = parser.parse_args()
    rnd = random.Random(options.seed)
    zoo = Zoo(rnd, options.big)
    kind = rnd.choice(["compact", "large", "odd"])
    text = preamble(options.big, kind, rnd.random() < 0.3)
    zoo.plain = True
    stream_context, context = zoo.struct(2), zoo.struct(2)
    zoo.plain = False
    text += """stream { id = 3; event.header := struct header; event.context := %s;
 packet.context := struct { t64 timestamp_begin; t64 timestamp_end; unsigned long content_size;
 unsigned long packet_size; unsigned long packet_seq_num; unsigned long events_discarded;
 uint32_t cpu_id; }; };
""" % stream_context[0]
    classes = []
    for number in range(6):
        payload = zoo.struct(0)
        classes.append((payload, number == 2))
        text += 'event { name = "zoo:event%d"; id = %d; stream_id = 3; loglevel = 13; %s\n fields := %s; };\n' % (
            number, number, "context := %s;" % context[0] if number == 2 else "", payload[0])
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "metadata").write_text(text)
    data, time = b"", 5000
    for sequence in range(3):
        bits, begin = Bits(options.big), time
        bits.number(0xC1FC1FC1, 32)
        for byte in range(16):
            bits.number(byte, 8)
        bits.number(3, 32)
        head = len(bits.bits)
        for value, size in ((begin, 64), (0, 64), (0, 64), (0, 64), (sequence, 64), (0, 64), (1, 32)):
            bits.number(value, size)
        for _ in range(options.events // 3):
            time += rnd.choice([1, 1000, 1 << 26])
            number = rnd.randrange(len(classes))
            payload, has_context = classes[number]
            write_header(bits, rnd, kind, number, time)
            stream_context[2](bits)
            if has_context:
                context[2](bits)
            payload[2](bits)
        content = len(bits.bits)
        bits.bits += [0] * (-content % 4096)
        for at, value in ((64, time), (128, content), (192, len(bits.bits))):
            patch = Bits(options.big)
            patch.number(value, 64)
            bits.bits[head + at:head + at + 64] = patch.bits
        data += bits.bytes()
    (out / "stream_0").write_bytes(data)


main()
