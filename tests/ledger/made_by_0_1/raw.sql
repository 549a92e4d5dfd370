BEGIN TRANSACTION;
CREATE TABLE commonweal_entries (
	number BIGINT NOT NULL, 
	content TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	signature TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "commonweal_entries" VALUES(1,'{"at":"2026-01-01T00:00:00.000000Z","body":{"operator":"1ee0e9fe3ecb33cb8398bf34e0dcd38904d16a0bae26679a42fd321e458b54eb","terms":{"currency":"XTS","largest_share":3,"minor_digits":2,"name":"raw contributions","settlement":"transfers","worth":"100000"}},"format":"commonweal.entry/1","kind":"opening","number":1,"postings":[],"previous":"0000000000000000000000000000000000000000000000000000000000000000"}','237dad32aae6fd8f2b5942d0a6a45a619212a345360c3fb6178bf4362864ad9a','b82cd0c3bbfa812dc10d4ec6054c870e767900bdd5f0557d33bf2939ff2cea14b0bbbae8604b0320f820737d35860f33edcf954e97c6ca70403bc1cda70c2b07');
INSERT INTO "commonweal_entries" VALUES(2,'{"at":"2026-01-01T00:00:01.000000Z","body":{"members":[{"client":"x","key":null},{"client":"y","key":null}]},"format":"commonweal.entry/1","kind":"admission","number":2,"postings":[],"previous":"237dad32aae6fd8f2b5942d0a6a45a619212a345360c3fb6178bf4362864ad9a"}','6707beb3b4e6dfc51736ba3f12883ec96a60fd3c6197ec31688df745ac07166f','d0a03c72e41e8bcbb9826db4e03e90c69d773553d208cf3cb7bcdd3e086107e7ada393f0f3b4b418eb86698460d1f63ad15c73e6a9c1443524ea181d2d310403');
INSERT INTO "commonweal_entries" VALUES(3,'{"at":"2026-01-01T00:00:02.000000Z","body":{"absent":[],"decision":{"budget":0.2,"eliminated":[],"objective":0.2,"payoffs":[0.4,-0.20000000000000004],"retained":["x","y"],"shares":[2,-1],"transfers":[0.30000000000000004,-0.30000000000000004]},"grace":false,"inputs":[{"client":"x","contribution":0.5,"cost":null,"profit":0.1,"sample_count":100,"signature":null},{"client":"y","contribution":-0.25,"cost":null,"profit":0.1,"sample_count":101,"signature":null}],"round":1,"rules":{"contribution_rule":"raw","liability_cap":null,"loss_rule":"contribution","mu":2},"rules_version":"1"},"format":"commonweal.entry/1","kind":"round","number":3,"postings":[["clients/x","30000"],["clients/y","-30000"]],"previous":"6707beb3b4e6dfc51736ba3f12883ec96a60fd3c6197ec31688df745ac07166f"}','609350031a909ac2a653fa55975febf0350031c16101e1f5213abd1e2080f937','ba569da2151e09941ec331137679f373fd21f55e947eb791b501e1450ab29348b28631d76a802f7475ac93325ee77156828da87f77c6dcb7060cdc77b1807401');
INSERT INTO "commonweal_entries" VALUES(4,'{"at":"2026-01-01T00:00:03.000000Z","body":{"absent":[],"decision":{"budget":0.08,"eliminated":[],"objective":0.08,"payoffs":[0.05,0.029999999999999995],"retained":["x","y"],"shares":[0.625,0.37499999999999994],"transfers":[-0.05,0.049999999999999996]},"grace":false,"inputs":[{"client":"x","contribution":0.5,"cost":null,"profit":0.1,"sample_count":100,"signature":null},{"client":"y","contribution":0.3,"cost":null,"profit":-0.02,"sample_count":101,"signature":null}],"round":2,"rules":{"contribution_rule":"raw","liability_cap":null,"loss_rule":"contribution","mu":"inf"},"rules_version":"1"},"format":"commonweal.entry/1","kind":"round","number":4,"postings":[["clients/x","-5000"],["clients/y","5000"]],"previous":"609350031a909ac2a653fa55975febf0350031c16101e1f5213abd1e2080f937"}','474cdf9c5db4ae3f3d80a98edc2b1547a4eb091ec142ee5c1ec08f4db4b29bdd','6bb5524e8f5ab64b4a612dede1f42ede88d80c99be6c6b5a61a5e181bb50a46fdbce534bf7acf6437070e091c87ac7b37726c157fd20ddf563fa2a73ec078504');
CREATE TABLE commonweal_postings (
	entry BIGINT NOT NULL, 
	position INTEGER NOT NULL, 
	account TEXT NOT NULL, 
	amount BIGINT NOT NULL, 
	PRIMARY KEY (entry, position), 
	FOREIGN KEY(entry) REFERENCES commonweal_entries (number)
);
INSERT INTO "commonweal_postings" VALUES(3,0,'clients/x',30000);
INSERT INTO "commonweal_postings" VALUES(3,1,'clients/y',-30000);
INSERT INTO "commonweal_postings" VALUES(4,0,'clients/x',-5000);
INSERT INTO "commonweal_postings" VALUES(4,1,'clients/y',5000);
CREATE TABLE commonweal_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT commonweal_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "commonweal_schema" VALUES('0001');
COMMIT;
