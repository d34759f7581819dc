"""Client quotas: who may use how much of the broker, and how long who used more has to hold back (KIP-13, KIP-124,
KIP-219, KIP-599).

Dispatch asks after each request; the answer goes into throttle_time_ms, and the connection is muted for that long.
Nothing is measured while nobody has a quota: `ClientQuotaManager.active` is all that the hot path looks at then.

    limits.py          whose quota counts for a client
    rate.py            rates over sampled windows
    token_bucket.py    bursts, for changes of the cluster
    measures.py        what each client has used
    mutations.py       the quota on changes as one request sees it
    manager.py         all of it together
"""
