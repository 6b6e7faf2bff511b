-- Forget where a node was, unless a newer epoch has claimed its id.
-- KEYS: where
-- ARGV: epoch
local newest = redis.call('HGET', where, 'epoch')
if newest and tonumber(newest) <= tonumber(epoch) then
  return redis.call('DEL', where)
end
return 0
