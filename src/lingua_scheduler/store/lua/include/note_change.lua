-- Give the pool a new version and remember which node it is about. The first version is the time in microseconds:
-- a Redis that forgot everything starts far beyond what anybody knew.
local function note_change(version, changes, id)
  local number = redis.call('INCR', version)
  if number == 1 then
    local time = redis.call('TIME')
    number = time[1] * 1000000 + time[2]
    redis.call('SET', version, number)
  end
  redis.call('ZADD', changes, number, id)
  if redis.call('ZCARD', changes) > 20000 then
    redis.call('ZREMRANGEBYRANK', changes, 0, 999)
  end
  redis.call('EXPIRE', version, 86400)
  redis.call('EXPIRE', changes, 86400)
end
