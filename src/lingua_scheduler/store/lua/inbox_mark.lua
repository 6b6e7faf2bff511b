-- Note that an instance may have dead letters for so long; those that cannot any more are struck.
-- KEYS: graves
-- ARGV: id keep_s
-- include: now_ms
local now = now_ms()
redis.call('ZREMRANGEBYSCORE', graves, '-inf', now)
redis.call('ZADD', graves, now + keep_s * 1000, id)
redis.call('EXPIRE', graves, keep_s)
return 1
