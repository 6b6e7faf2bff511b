-- Write a mark and give it back.
-- KEYS: key
-- ARGV: mark
-- durable: what the tests of durability compare
redis.call('SET', key, mark, 'EX', 600)
return mark
