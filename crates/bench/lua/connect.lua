-- A new connection for each transaction: as in applications without a pool.
require("oltp_common")

local driver
function thread_init() driver = sysbench.sql.driver() end
function thread_done() end

function event()
   local connection = driver:connect()
   local table_number = sysbench.rand.uniform(1, sysbench.opt.tables)
   local id = sysbench.rand.default(1, sysbench.opt.table_size)
   connection:query(string.format("SELECT c FROM sbtest%u WHERE id=%u", table_number, id))
   connection:disconnect()
end
