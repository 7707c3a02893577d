#!/bin/bash
# The proof link of the hot zone: crates/probe alone, optimised as one unit, becomes a shared object
# without undefined symbols except the short list in scripts/proof_imports.txt. Its panic handler
# refers to a symbol that does not exist, so the link fails if a panic is reachable. docs/SAFETY.md
# describes what this proves and what it does not.
#
#   scripts/proof.sh              the proof
#   scripts/proof.sh --self-test  the proof, and that it fails for a crate that can panic
set -euo pipefail
cd "$(dirname "$0")/.."

target_dir="${CARGO_TARGET_DIR:-target}"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The exported functions are those of the header.
mapfile -t exports < <(grep -oE '\btacho_probe_[a-z_]+\(' include/tacho_probe.h | tr -d '(' | sort -u)
if [ "${#exports[@]}" -lt 5 ]; then
  echo "proof.sh: include/tacho_probe.h names too few functions" >&2
  exit 1
fi

# link FEATURES OUTPUT [EXTRA_EXPORT]: builds the crate and links it.
link() {
  local features=$1 output=$2 extra=${3:-}
  local names=("${exports[@]}" ${extra:+"$extra"})
  cargo rustc --quiet --package tacho-probe --lib --profile proof --features "$features" \
    --crate-type staticlib
  {
    echo "{ global:"
    printf '%s;\n' "${names[@]}"
    echo "local: *; };"
  } > "$work/exports.map"
  g++ -shared -o "$output" -Wl,-z,defs -Wl,--gc-sections -Wl,--no-undefined-version \
    -Wl,--version-script="$work/exports.map" \
    "${names[@]/#/-Wl,--undefined=}" \
    "$target_dir/proof/libtacho_probe.a"
}

prove() {
  local so="$work/libtacho_probe.so"
  link proof "$so"

  # Its imports are permitted.
  nm --dynamic --undefined-only "$so" | awk '{ sub(/@.*/, "", $2); print $2 }' | sort -u \
    > "$work/imports"
  grep -vE '^(#|$)' scripts/proof_imports.txt | sort -u > "$work/allowed"
  if comm -23 "$work/imports" "$work/allowed" | grep .; then
    echo "proof.sh: these imports are not in scripts/proof_imports.txt" >&2
    return 1
  fi

  # Its exports are those of the header.
  nm --dynamic --defined-only "$so" | awk '{ print $3 }' | sort -u > "$work/exported"
  if ! diff <(printf '%s\n' "${exports[@]}") "$work/exported" >&2; then
    echo "proof.sh: the exports are not those of include/tacho_probe.h" >&2
    return 1
  fi

  # Neither a panic nor an allocator is left in it, also not as a local symbol.
  if nm "$so" | grep -iE 'panic|unwind|rust_alloc|rdl_alloc|malloc'; then
    echo "proof.sh: the symbols above have no place in the hot zone" >&2
    return 1
  fi
  echo "proof.sh: ${#exports[@]} functions, imports: $(paste -sd ' ' "$work/imports")"
}

# A crate with one slice index that may be out of range must not link.
prove_that_it_fails() {
  if link proof,proof-negative "$work/negative.so" tacho_probe_proof_negative \
    2> "$work/negative.log"; then
    echo "proof.sh: self-test: a reachable panic was linked" >&2
    return 1
  fi
  if ! grep -q 'undefined reference to .probe_panic_is_reachable' "$work/negative.log"; then
    cat "$work/negative.log" >&2
    echo "proof.sh: self-test: the link failed for another reason" >&2
    return 1
  fi
  echo "proof.sh: self-test: a reachable panic does not link"
}

case "${1:-}" in
"") prove ;;
--self-test)
  prove
  prove_that_it_fails
  ;;
*)
  echo "usage: scripts/proof.sh [--self-test]" >&2
  exit 2
  ;;
esac
