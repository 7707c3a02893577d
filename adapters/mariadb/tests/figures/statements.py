# SPDX-License-Identifier: GPL-2.0-only
"""The kinds of statements that the figures are compared for.

A line is (letter of figures_client, text, tag). The tag names what is special about the events
of the line; the comparison in run.py knows what each of them means:

  ""          one STATUS event for each statement that the Performance Schema sees
  "execute"   the event has the command and the text of the prepared statement
  "immediate" one more: EXECUTE IMMEDIATE is announced as itself and as what it executes
  "dynamic"   one more, nested: EXECUTE inside of a routine
  "no-status" one less: the server raises no STATUS event at all
  "bulk"      one event for each row of parameters, one for all in the Performance Schema
  "cursor"    the Performance Schema does not look while a cursor is opened: it shows zeros
  "unsure"    rows_sent is left out, because the server's count may be wrong
"""

SETUP = [
    ("Q", "create database t", ""),
    ("U", "t", ""),
    ("Q", "create table t1(a int primary key auto_increment, b int, key(b))", ""),
    ("Q", "create table t2 like t1", ""),
    ("Q", "create table t3 like t1", ""),
    ("Q", "create function f(x int) returns int deterministic return x+1", ""),
    ("Q", "create function g(x int) returns int reads sql data return "
          "(select count(*) from t2)", ""),
    ("Q", "create procedure p() begin declare i int default 0; select * from t1; "
          "update t1 set b=b+1 where a<3; select count(*) from t2; insert into t2(b) values(77); "
          "set i=5; end", ""),
    ("Q", "create procedure q() begin declare continue handler for sqlexception begin end; "
          "insert into t1(a) values(1); select 7; select nosuch; end", ""),
    ("Q", "create procedure e() begin insert into t2(b) values(1); "
          "insert into t1(a) values(1); end", ""),
    ("Q", "create procedure d() begin prepare s from 'select a from t1'; execute s; "
          "deallocate prepare s; end", ""),
    ("Q", "create trigger tr before insert on t2 for each row insert into t1(b) values(new.b)", ""),
]

KINDS = [
    ("Q", "insert into t1(b) values (1),(2),(3),(4),(5)", ""),
    ("Q", "insert into t3(b) select b from t1 where a > 2", ""),
    ("Q", "select * from t1", ""),
    ("Q", "select * from t1", ""),  # From the query cache.
    ("Q", "select sql_no_cache * from t1 limit 2", ""),
    ("Q", "select sql_calc_found_rows * from t1 limit 2", ""),
    ("Q", "select * from t1 where a = 77", ""),
    ("Q", "select count(*), b from t1 group by b order by 2 desc", ""),
    ("Q", "select t1.a from t1, t3 where t1.b = t3.b", ""),
    ("Q", "select c.a from t1 c union select b from t3", ""),
    ("Q", "with recursive r as (select 1 as n union all select n+1 from r where n < 10) "
          "select * from r", ""),
    ("Q", "explain select * from t1", ""),
    ("Q", "analyze select * from t1", ""),
    ("Q", "show tables", ""),
    ("Q", "show status like 'Threads_c%'", ""),
    ("Q", "call p()", ""),
    ("Q", "call q()", ""),
    ("Q", "call e()", ""),
    ("Q", "call d()", "dynamic"),
    ("Q", "insert into t2(b) values (8),(9)", ""),
    ("Q", "update t1 set b = b where a = 1", ""),
    ("Q", "update t1, t3 set t1.b = 1, t3.b = 2 where t1.a = t3.a", ""),
    ("Q", "delete from t1 where a = 5", ""),
    ("Q", "delete t3 from t1, t3 where t1.a = t3.a and t1.a = 2", ""),
    ("Q", "set @x = 1", ""),
    ("Q", "do sleep(0)", ""),
    ("Q", "select 1 into @y", ""),
    ("Q", "select nosuch", ""),
    ("Q", "selec syntax", ""),
    ("Q", "use nosuch", ""),
    ("Q", "insert into t1(a) values (1)", ""),
    ("Q", "insert ignore into t1(a) values (1),(1001)", ""),
    ("Q", "replace into t1(a,b) values (1001, 3)", ""),
    ("Q", "insert into t1(a,b) values (1001, 3) on duplicate key update b = 99", ""),
    ("Q", "begin; update t1 set b=b+1; select * from t1; commit", ""),
    ("Q", "select 1; selec bad; select 2", ""),
    ("Q", "savepoint s", ""),
    ("Q", "rollback", ""),
    ("Q", "load data infile '$DIRECTORY/load.txt' into table t2(b)", ""),
    ("Q", "load data local infile '$DIRECTORY/load.txt' into table t2(b)", ""),
    ("Q", "select * from t1 into outfile '$DIRECTORY/out.txt'", ""),
    ("P", "select * from t1", ""),
    ("P", "insert into t2(b) values (5)", ""),
    ("P", "call p()", ""),
    ("P", "select nosuch", ""),
    ("C", "select * from t1 limit 3", "cursor"),
    ("B", "insert into t3(b) values (?)", "bulk"),
    ("B", "update t1 set b = b + 1 where a < ?", "bulk"),
    ("X", "x", "no-status"),
    ("Q", "prepare st from 'select * from t1'", ""),
    ("Q", "execute st", "execute"),
    ("Q", "execute nosuch", "no-status"),
    ("Q", "deallocate prepare st", ""),
    ("Q", "execute immediate 'update t1 set b = 4 where a < 3'", "immediate"),
    ("Q", "alter table t1 add column c int", ""),
    ("Q", "create index c on t1(c)", ""),
    ("Q", "create view v as select * from t1", ""),
    ("Q", "select * from v limit 3", ""),
    ("Q", "rename table t3 to t4", ""),
    ("Q", "create temporary table t5 as select * from t1", ""),
    ("Q", "drop temporary table t5", ""),
    ("Q", "optimize table t1", ""),
    ("Q", "check table t1", ""),
    ("Q", "lock tables t1 write", ""),
    ("Q", "select count(*) from t1", ""),
    ("Q", "unlock tables", ""),
    ("Q", "create user u identified by 'x'", ""),
    ("Q", "grant select on t.* to u", ""),
    ("Q", "drop user u", ""),
    ("Q", "flush tables", ""),
    ("Q", "kill query connection_id()", ""),
    ("Q", "set statement max_statement_time=0.05 for select sleep(1), a from t1", ""),
    ("Q", "begin not atomic declare i int default 1; while i < 3 do "
          "insert into t2(b) values(i); set i=i+1; end while; end", ""),
    ("Q", "delete from t4 returning a", "unsure"),
    ("Q", "insert into t2(b) values (1),(2),(3) returning a", "unsure"),
    ("Q", "insert into t2(b) values (4) returning a", ""),
    # The session uses stored functions from here on.
    ("Q", "select f(a), b from t1", "unsure"),
    ("Q", "select g(a), b from t1", "unsure"),
    ("Q", "select sql_no_cache a from t1", "unsure"),
    ("Q", "select f(1)", ""),
    ("Q", "drop table t4", ""),
    ("Q", "truncate t2", ""),
]

# After each line: separates the lines in every log.
MARKER = "select 'marker {}'"
