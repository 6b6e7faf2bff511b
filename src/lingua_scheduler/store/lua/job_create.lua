-- Claim (index, language) for a job and write it with its audio, placed on a node (attempt 1) or waiting (attempt 0).
-- A session that vanished from Redis while its owner lives is written anew.
-- Returns {'fresh', job}, {'known', job} when the claim is taken, or {'fenced'} when the session has a newer owner.
-- KEYS: session claims job audio
-- ARGV: owner epoch session_ttl_ms claim job_id state attempt node record data job_ttl_ms
-- ARGV: affinity affinity_ttl_ms pool pair forget...
-- include: now_ms remember
local current = redis.call('HGET', session, 'epoch')
if current and current ~= epoch then
  return {'fenced'}
end
if not current then
  redis.call('HSET', session, 'owner', owner, 'epoch', epoch)
  redis.call('PEXPIRE', session, session_ttl_ms)
end
local known = redis.call('HGET', claims, claim)
if known then
  return {'known', known}
end
redis.call('HSET', claims, claim, job_id)
redis.call('PEXPIRE', claims, session_ttl_ms)
if #forget > 0 then
  redis.call('HDEL', claims, unpack(forget))
end
redis.call('HSET', job, 'state', state, 'attempt', attempt, 'node', node, 'record', record)
redis.call('PEXPIRE', job, job_ttl_ms)
redis.call('SET', audio, data, 'PX', job_ttl_ms)
remember(session, affinity, affinity_ttl_ms)
if pool ~= '' then
  redis.call('HSET', session, 'preferred_pool', pool, 'last_lang_pair', pair)
end
return {'fresh', job_id}
