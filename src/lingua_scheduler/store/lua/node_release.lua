-- Give a slot back. Once: a second release, or one after the node registered anew, changes nothing.
-- KEYS: node load held reserved holders
-- ARGV: id member
-- include: shelve
if redis.call('ZREM', reserved, member) == 0 then
  return 0
end
local holder = redis.call('HGET', holders, member)
redis.call('HDEL', holders, member)
local epoch = redis.call('HGET', node, 'epoch')
if epoch and holder == epoch .. ' ' .. id then
  redis.call('HINCRBY', held, id, -1)
  shelve(load, held, node, id)
end
return 1
