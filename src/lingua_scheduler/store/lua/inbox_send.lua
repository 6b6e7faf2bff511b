-- Append a letter to an instance's inbox. Returns 'sent', 'gone' when it does not live, or 'full'.
-- KEYS: presence inbox
-- ARGV: max body source
-- durable: promise 1
if redis.call('EXISTS', presence) == 0 then
  return 'gone'
end
if redis.call('XLEN', inbox) >= tonumber(max) then
  return 'full'
end
redis.call('XADD', inbox, '*', 'body', body, 'source', source)
return 'sent'
