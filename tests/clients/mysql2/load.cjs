// The load of mysql2: load.cjs HOST PORT USER PASSWORD

const assert = require("node:assert");
const mysql = require("mysql2/promise");

const LARGE = 20_000_000;

async function main([host, port, user, password]) {
  const conn = await mysql.createConnection({
    host,
    port: Number(port),
    user,
    password,
    database: "shop",
  });
  const table = mysql.escapeId(user);
  const [first] = await conn.query("SELECT 'text', 1");
  assert.deepStrictEqual({ ...first[0] }, { text: "text", 1: 1 });
  await conn.query(`CREATE TABLE ${table} (id INT PRIMARY KEY, v LONGTEXT, f DOUBLE)`);
  await conn.beginTransaction();
  const insert = `INSERT INTO ${table} (id, v, f) VALUES (?, ?, ?)`;
  await conn.execute(insert, [1, "ä€😀", 0.5]);
  await conn.execute(insert, [2, null, null]);
  await conn.commit();
  for (const id of [1, 2]) {
    const [rows] = await conn.execute(`SELECT v FROM ${table} WHERE id = ?`, [id]);
    assert.strictEqual(rows.length, 1);
  }
  await conn.beginTransaction();
  const [deleted] = await conn.query(`DELETE FROM ${table}`);
  assert.strictEqual(deleted.affectedRows, 2);
  await conn.rollback();
  await assert.rejects(conn.query(`SELECT nosuch FROM ${table}`), { errno: 1054 });
  await assert.rejects(conn.execute("SELECT nosuch FROM nowhere", []), { errno: 1146 });
  await assert.rejects(conn.execute(insert, [1, "double", 1]), { errno: 1062 });
  const [large] = await conn.query(`SELECT REPEAT('x', ${LARGE}) AS x`);
  assert.strictEqual(large[0].x.length, LARGE);
  await conn.execute(`INSERT INTO ${table} (id, v) VALUES (3, ?)`, ["y".repeat(LARGE)]);
  conn.unprepare(insert);
  await conn.ping();
  await conn.changeUser({ user, password, database: "shop" });
  await conn.query("SELECT 'after a change of the user'");
  await conn.end();
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
