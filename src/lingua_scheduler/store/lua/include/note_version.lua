-- Give a version that nobody has seen: the first is the time in microseconds, far beyond what was known before.
local function note_version(version)
  if redis.call('INCR', version) == 1 then
    local time = redis.call('TIME')
    redis.call('SET', version, string.format('%.0f', time[1] * 1000000 + time[2]))
  end
end
