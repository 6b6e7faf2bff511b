-- Take a node's id: the next epoch is the caller's, and every older one is fenced from now on.
-- Returns the epoch and where the node was before (pool or '').
-- KEYS: where
-- ARGV: pool
local epoch = redis.call('HINCRBY', where, 'epoch', 1)
local before = redis.call('HGET', where, 'pool') or ''
redis.call('HSET', where, 'pool', pool)
redis.call('EXPIRE', where, 86400)
return {tostring(epoch), before}
