"""Prints, for `zones.rs`, what Python's zoneinfo says about every zone of the system's database.

For each zone and each of its transitions (those of its file, and those of its rule up to 2075):
one line for the last microsecond before and one for the first after, `zone time_us offset_s`,
and one line each for an instant long before and long after all of them. Python reads the same
files with code of its own. Offsets may have seconds.
"""

import datetime
import pathlib
import struct
import sys
import zoneinfo

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
FIRST = int((datetime.datetime(2, 1, 1, tzinfo=datetime.timezone.utc) - EPOCH).total_seconds())
LAST = int((datetime.datetime(9998, 1, 1, tzinfo=datetime.timezone.utc) - EPOCH).total_seconds())
RULE_FROM = int(datetime.datetime(2037, 1, 1, tzinfo=datetime.timezone.utc).timestamp())
RULE_UNTIL = int(datetime.datetime(2075, 1, 1, tzinfo=datetime.timezone.utc).timestamp())
WEEK = 7 * 86400


def file_transitions(data):
    """Transition times of the 64-bit block of a TZif file (RFC 8536)."""
    def counts(at):
        assert data[at:at + 4] == b"TZif"
        return struct.unpack(">6l", data[at + 20:at + 44])

    isut, isstd, leap, times, types, chars = counts(0)
    second = 44 + times * 5 + types * 6 + chars + leap * 8 + isstd + isut
    times = counts(second)[3]
    return struct.unpack(f">{times}q", data[second + 44:second + 44 + 8 * times])


def offset(zone, second):
    at = EPOCH + datetime.timedelta(seconds=second)
    return int(at.astimezone(zone).utcoffset().total_seconds())


def rule_transitions(zone):
    """Seconds at which the offset changes, found by looking once a week and then closer."""
    for start in range(RULE_FROM, RULE_UNTIL, WEEK):
        before, after = start, start + WEEK
        if offset(zone, before) != offset(zone, after):
            while after - before > 1:
                middle = (before + after) // 2
                if offset(zone, middle) == offset(zone, before):
                    before = middle
                else:
                    after = middle
            yield after


def main():
    names = sorted(zoneinfo.available_timezones() - {"localtime"})
    for name in names:
        zone = zoneinfo.ZoneInfo(name)
        directory = next(p for p in zoneinfo.TZPATH if (pathlib.Path(p) / name).is_file())
        found = {*file_transitions((pathlib.Path(directory) / name).read_bytes())}
        found = {second for second in found if FIRST < second < LAST}
        found.update(rule_transitions(zone))
        for second in sorted(found):
            print(name, second * 1_000_000 - 1, offset(zone, second - 1))
            print(name, second * 1_000_000, offset(zone, second))
            print(name, second * 1_000_000 + 1, offset(zone, second))
        for second in (FIRST, LAST):
            print(name, second * 1_000_000, offset(zone, second))
    print(len(names), "zones", file=sys.stderr)


main()
