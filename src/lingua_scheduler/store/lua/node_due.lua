-- Name at most `most` nodes whose lease is over, and reservations whose time is over.
-- KEYS: leases reserved
-- ARGV: most
-- include: now_ms
local now = now_ms()
return {
  redis.call('ZRANGEBYSCORE', leases, '-inf', now, 'LIMIT', 0, most),
  redis.call('ZRANGEBYSCORE', reserved, '-inf', now, 'LIMIT', 0, most),
}
