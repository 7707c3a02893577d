import assert from "node:assert/strict";
import { test } from "node:test";
import { filter, quote, state, terms, toggle } from "../../src/lib/search-text.ts";

test("terms are split outside of quotes and brackets", () => {
  assert.deepEqual(terms('user:app  "a b" (x or y) -host:10.*'), [
    "user:app",
    '"a b"',
    "(x or y)",
    "-host:10.*",
  ]);
  assert.deepEqual(terms('user:"a \\" b" c'), ['user:"a \\" b"', "c"]);
  assert.deepEqual(terms('"open quote'), ['"open quote']);
});

test("a value that the language would read otherwise is quoted", () => {
  assert.equal(quote("app"), "app");
  assert.equal(quote(1045), "1045");
  assert.equal(quote("or"), '"or"');
  assert.equal(quote("a b"), '"a b"');
  assert.equal(quote("drop_*"), '"drop_*"');
  assert.equal(quote(">5"), '">5"');
  assert.equal(quote('say "\\'), '"say \\"\\\\"');
  assert.equal(filter("user", "<svg/onload=alert(1)>"), 'user:"<svg/onload=alert(1)>"');
});

test("a filter is added once, removed by a second click, and replaces its opposite", () => {
  assert.equal(toggle("", "user:app"), "user:app");
  assert.equal(toggle("errno:>0", "user:app"), "errno:>0 user:app");
  assert.equal(toggle("errno:>0 user:app", "user:app"), "errno:>0");
  assert.equal(toggle("errno:>0 user:app", "user:app", true), "errno:>0 -user:app");
  assert.equal(toggle("-user:app", "user:app"), "user:app");
  assert.equal(state("x -user:app", "user:app"), "excluded");
  assert.equal(state('"user:app"', "user:app"), false);
});

test("a filter that is added to an `or` applies to all of it", () => {
  assert.equal(toggle("a or b", "user:app"), "(a or b) user:app");
});
