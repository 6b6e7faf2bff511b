-- Take a node's id: the next epoch is the caller's, and every older one is fenced from now on.
-- Epochs follow Redis' clock, so they grow on even when Redis has forgotten the last one.
-- Returns the epoch and where the node was before (pool or '').
-- KEYS: where
-- ARGV: pool
-- include: now_ms
local known = redis.call('HMGET', where, 'epoch', 'pool')
local epoch = string.format('%.0f', math.max(now_ms(), tonumber(known[1] or 0) + 1))
redis.call('HSET', where, 'epoch', epoch, 'pool', pool)
redis.call('EXPIRE', where, 86400)
return {epoch, known[2] or ''}
