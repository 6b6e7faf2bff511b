-- The present in microseconds, less than what a job counts: among nodes with equal load, the one whose last use is longest ago comes first.
local function turn()
  local time = redis.call('TIME')
  return time[1] % 1000000 * 1000000 + time[2]
end
