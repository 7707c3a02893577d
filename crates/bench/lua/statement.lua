-- Point selects with statements of TACHO_BENCH_STATEMENT_BYTES bytes: the cost of the text itself.
-- A long list of values, as an ORM writes it, rather than a comment, which the client or a
-- proxy might cut out.
require("oltp_common")

local bytes = tonumber(os.getenv("TACHO_BENCH_STATEMENT_BYTES"))
local connection

function thread_init()
   connection = sysbench.sql.driver():connect()
end
function thread_done() connection:disconnect() end

local tail = ")"
function event()
   local id = sysbench.rand.default(1, sysbench.opt.table_size)
   local head = string.format("SELECT c FROM sbtest%u WHERE id=%u AND pad NOT IN ('",
      sysbench.rand.uniform(1, sysbench.opt.tables), id)
   local room = bytes - #head - #tail - 1
   connection:query(head .. string.rep("x", room) .. "'" .. tail)
end
