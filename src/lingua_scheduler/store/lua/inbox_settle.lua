-- Remove letters that are dealt with; returns how many were there.
-- KEYS: inbox
-- ARGV: group ids...
-- durable: promise 1
redis.call('XACK', inbox, group, unpack(ids))
return redis.call('XDEL', inbox, unpack(ids))
