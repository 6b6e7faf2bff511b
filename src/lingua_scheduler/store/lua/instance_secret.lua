-- Agree on a secret: the first proposal is kept for a day after anybody last asked.
-- KEYS: secret
-- ARGV: proposal
local known = redis.call('GET', secret)
redis.call('SET', secret, known or proposal, 'EX', 86400)
return known or proposal
