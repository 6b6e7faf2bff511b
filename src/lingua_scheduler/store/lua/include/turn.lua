-- The present as a fraction of 1: among nodes with equal load, the one whose last use has the smallest comes first.
local function turn()
  local time = redis.call('TIME')
  return (time[1] % 1000000 + time[2] / 1000000) / 1000000
end
