-- Keep a mark in a set; 1 when it is new, 0 when it was there and nothing had to be written.
-- KEYS: kept
-- ARGV: mark
-- durable: what the tests of durability count
if redis.call('SISMEMBER', kept, mark) == 1 then
  return 0
end
redis.call('SADD', kept, mark)
redis.call('EXPIRE', kept, 600)
return 1
