"""The command line, `chs3`: the ledger, the doctor and rehearsals."""
