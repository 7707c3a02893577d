#!/usr/bin/env bash
# Checks that files run on RHEL 9, and in the images of MySQL, which are made of Oracle Linux 9:
# that they need no symbol of a newer C or C++ library.
#
#   scripts/glibc.sh FILE...
set -euo pipefail

# RHEL 9: glibc 2.34, GCC 11.
limits=(GLIBC_2.34 GLIBCXX_3.4.29 CXXABI_1.3.13)

bad=0
for file in "$@"; do
    needed=$(objdump -T "$file" | grep -F '*UND*' |
        grep -oE '(GLIBC|GLIBCXX|CXXABI)_[0-9.]+' | sort -u)
    for limit in "${limits[@]}"; do
        newest=$(grep "^${limit%%_*}_" <<<"$needed" | sort -V | tail -n 1 || true)
        [ -n "$newest" ] || continue
        [ "$(printf '%s\n' "$newest" "$limit" | sort -V | tail -n 1)" != "$limit" ] || continue
        bad=1
        echo "glibc.sh: $file needs $newest, and RHEL 9 has $limit: build it on Debian 12" \
            "or older, or do not call what is new there:" >&2
        objdump -T "$file" | grep -F '*UND*' | grep -F "($newest)" >&2
    done
done
exit "$bad"
