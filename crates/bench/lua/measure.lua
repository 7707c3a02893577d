-- Wraps a sysbench script: counts each event's latency in a file that `tacho bench` has mapped,
-- too. sysbench itself reports one percentile for a whole run; this gives all of them, for any
-- span of time, during the run. src/histogram.rs has the layout.
--
-- TACHO_BENCH_SCRIPT  the script to wrap: a name of sysbench's own, or a path with a slash
-- TACHO_BENCH_FILE    the file

local ffi = require("ffi")

local script = os.getenv("TACHO_BENCH_SCRIPT")
if script:find("/") then dofile(script) else require(script) end

ffi.cdef [[
typedef struct { long sec; long nsec; } tacho_time;
int clock_gettime(int clock, tacho_time *time);
int clock_nanosleep(int clock, int flags, const tacho_time *until, tacho_time *left);
int open(const char *path, int flags);
int close(int fd);
void *mmap(void *address, size_t bytes, int protection, int flags, int fd, long offset);
typedef union { double number; uint32_t half[2]; } tacho_bits;
]]

local CLOCK_MONOTONIC, TIMER_ABSTIME, O_RDWR, MAP_SHARED = 1, 1, 2, 1
local PROT_READ_WRITE = 3
-- The words of the header.
local MAGIC, BUCKETS, STRIDE, EPOCH, STOP, INTERVAL, CONNECTIONS = 0, 3, 4, 5, 6, 7, 8
-- The words of a thread, before its buckets.
local STARTED, DONE, RETRIED, CONNECTED, FIRST_BUCKET = 0, 1, 2, 3, 8
local HEADER_WORDS = 512
-- The bucket of 1,024 ns: exponent and first six binary digits of the fraction.
local LOWEST = 1033 * 64

local header, mine, last_bucket
local time, bits = ffi.new("tacho_time"), ffi.new("tacho_bits")

local function now()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, time)
   return tonumber(time.sec) * 1e9 + tonumber(time.nsec)
end

local function sleep_until(ns)
   time.sec = math.floor(ns / 1e9)
   time.nsec = ns % 1e9
   ffi.C.clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, nil)
end

local function map()
   local path = os.getenv("TACHO_BENCH_FILE")
   local fd = ffi.C.open(path, O_RDWR)
   assert(fd >= 0, "cannot open " .. path)
   -- The part that is read before the real size is known.
   local first = ffi.cast("double *", ffi.C.mmap(nil, 4096, PROT_READ_WRITE, MAP_SHARED, fd, 0))
   assert(first[MAGIC] == 0x7461636f, path .. " is no file of tacho bench")
   local words = HEADER_WORDS + first[STRIDE] * sysbench.opt.threads
   local all = ffi.C.mmap(nil, words * 8, PROT_READ_WRITE, MAP_SHARED, fd, 0)
   assert(ffi.cast("intptr_t", all) ~= -1, "cannot map " .. path)
   ffi.C.close(fd)
   header = ffi.cast("double *", all)
   mine = header + HEADER_WORDS + header[STRIDE] * sysbench.tid
   last_bucket = header[BUCKETS] - 1
end

local stock_thread_init = thread_init
function thread_init(...)
   map()
   if stock_thread_init then stock_thread_init(...) end
   mine[CONNECTED] = header[CONNECTIONS]
end

-- Closes the connection and opens a new one, because the bench wants new sessions.
local function connect_again()
   local wanted = header[CONNECTIONS]
   if thread_done then thread_done() end
   if stock_thread_init then stock_thread_init() end
   mine[CONNECTED] = wanted
end

-- The intended start of this connection's next event, with a fixed rate.
local intended, epoch = 0, -1

-- Waits for the next intended start. A late answer does not move it, so that the wait behind a
-- slow statement counts as latency of those it delays.
local function wait_for_turn(interval)
   local at = now()
   if epoch ~= header[EPOCH] then
      -- Another method: delays under the previous one do not count.
      epoch = header[EPOCH]
      intended = at + interval * math.random()
   end
   if intended > at then sleep_until(intended) end
   local start = intended
   -- Exponential gaps: clients do not wait for each other, nor for a clock.
   intended = intended - math.log(1 - math.random()) * interval
   return start
end

local function count(ns)
   bits.number = ns
   -- Rounded down: the top 12 bits are sign and exponent, the next six the bucket's.
   local bucket = bit.rshift(bits.half[1], 14) - LOWEST
   if bucket < 0 then bucket = 0 elseif bucket > last_bucket then bucket = last_bucket end
   local at = FIRST_BUCKET + bucket
   mine[at] = mine[at] + 1
end

local stock_event = event
local start, again = 0, false

function event(...)
   if header[STOP] ~= 0 then return true end
   if mine[CONNECTED] ~= header[CONNECTIONS] and not again then connect_again() end
   if again then
      -- sysbench calls again after a deadlock: the client has been waiting all the time.
      mine[RETRIED] = mine[RETRIED] + 1
   elseif header[INTERVAL] > 0 then
      start = wait_for_turn(header[INTERVAL])
   else
      start = now()
   end
   if not again then mine[STARTED] = mine[STARTED] + 1 end
   again = true
   local ended = stock_event(...)
   again = false
   count(now() - start)
   mine[DONE] = mine[DONE] + 1
   return ended
end

if sysbench.cmdline.command == "run" then
   -- One seed per thread and run, or all connections would start in step.
   math.randomseed(now() % 2147483647)
end
