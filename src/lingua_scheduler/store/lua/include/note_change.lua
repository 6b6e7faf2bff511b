-- Give the pool a new version and remember which node it is about.
local function note_change(version, changes, id)
  local number = redis.call('INCR', version)
  redis.call('ZADD', changes, number, id)
  if redis.call('ZCARD', changes) > 20000 then
    redis.call('ZREMRANGEBYRANK', changes, 0, 999)
  end
  redis.call('EXPIRE', version, 86400)
  redis.call('EXPIRE', changes, 86400)
end
