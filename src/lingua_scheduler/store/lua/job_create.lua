-- Claim (index, language) for a job and write it with its audio, placed on a node (attempt 1) or waiting (attempt 0).
-- A session that vanished from Redis while its owner lives is written anew.
-- Every so many indexes (kept), the claims of older ones are forgotten: the session's counter knows that they are used.
-- Returns {'fresh', job}, {'anew', job} when the session had to be written too, {'known', job} when the claim is taken, or {'fenced'} when the session has a newer owner.
-- KEYS: session claims open_jobs job audio
-- ARGV: owner epoch spoken session_ttl_ms index claim kept last_seq job_id state attempt node reservation record data job_ttl_ms
-- ARGV: affinity affinity_ttl_ms pool pair
-- include: now_ms remember holds raise
-- durable: promises 1 and 3
if not holds(session, owner, epoch) then
  return {'fenced'}
end
local answer = 'fresh'
if not tonumber(redis.call('HGET', session, 'epoch')) then
  answer = 'anew'
  redis.call('HSET', session, 'owner', owner, 'epoch', epoch)
  redis.call('PEXPIRE', session, session_ttl_ms)
end
local known = redis.call('HGET', claims, claim)
if known then
  return {'known', known}
end
redis.call('HSET', claims, claim, job_id)
redis.call('PEXPIRE', claims, session_ttl_ms)
if index % kept == 0 then
  for _, name in ipairs(redis.call('HKEYS', claims)) do
    if tonumber(string.match(name, '^%d+') or 0) <= index - kept then
      redis.call('HDEL', claims, name)
    end
  end
end
redis.call('HSET', open_jobs, job_id, claim)
redis.call('PEXPIRE', open_jobs, session_ttl_ms)
redis.call('HSET', job, 'state', state, 'attempt', attempt, 'node', node, 'reservation', reservation, 'record', record)
redis.call('PEXPIRE', job, job_ttl_ms)
redis.call('SET', audio, data, 'PX', job_ttl_ms)
raise(session, 'next_index', index + 1)
raise(session, 'last_seq', last_seq)
raise(session, 'spoken', spoken)
remember(session, affinity, affinity_ttl_ms)
if pool ~= '' then
  redis.call('HSET', session, 'preferred_pool', pool, 'last_lang_pair', pair)
end
return {answer, job_id}
