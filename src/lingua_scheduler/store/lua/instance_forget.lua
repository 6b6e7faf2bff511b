-- Remove the inbox of a dead instance and who adopted it. 0 while it lives or has letters left.
-- KEYS: presence inbox adopter
if redis.call('EXISTS', presence) == 1 or redis.call('XLEN', inbox) > 0 then
  return 0
end
redis.call('UNLINK', inbox, adopter)
return 1
