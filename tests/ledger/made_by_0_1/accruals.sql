BEGIN TRANSACTION;
CREATE TABLE commonweal_entries (
	number BIGINT NOT NULL, 
	content TEXT NOT NULL, 
	hash TEXT NOT NULL, 
	signature TEXT NOT NULL, 
	PRIMARY KEY (number)
);
INSERT INTO "commonweal_entries" VALUES(1,'{"at":"2026-01-01T00:00:00.000000Z","body":{"operator":"1ee0e9fe3ecb33cb8398bf34e0dcd38904d16a0bae26679a42fd321e458b54eb","terms":{"currency":"JPY","largest_share":null,"minor_digits":0,"name":"accruing","settlement":"accruals","worth":"100000"}},"format":"commonweal.entry/1","kind":"opening","number":1,"postings":[],"previous":"0000000000000000000000000000000000000000000000000000000000000000"}','cddf4e7eb5fdbcdb5825e4a1043b748ec22f1b46507157c95a2b07b309d3246f','46dfaef3ac21f45521a93c6f08cbb53c3dde399f5ca4b1f4885a03a91249e649e1e47c38790a302a7acc15d3fcfe3b6b5f6108c3ffabeb6f3b0c185a434e300d');
INSERT INTO "commonweal_entries" VALUES(2,'{"at":"2026-01-01T00:00:01.000000Z","body":{"members":[{"client":"ann","key":"3c8cc81a9fe0f21469b4dee92828584e3c63887c491c6d91c05ae25f228d0a5b"},{"client":"bob","key":"p384:03dda2e85ba2891e68ddd66e7b02febb9184887c45d6578f799a4244d6ce6a075150643f2d115a1a9c5a5e067c1717fae4"},{"client":"cyd","key":null}]},"format":"commonweal.entry/1","kind":"admission","number":2,"postings":[],"previous":"cddf4e7eb5fdbcdb5825e4a1043b748ec22f1b46507157c95a2b07b309d3246f"}','d8417d9303c2325b52ffe6de334890dc5531cabd90d2e83713b9ec8667c0f9bb','3d9fd5fe1f0449b6eb09bdda020fbf3fb14798175bfccee0189e6b8138071d8a05220982bd6a1773908bd4de82763946a88187d190f2e89b8d4aa6a0aa211b0e');
INSERT INTO "commonweal_entries" VALUES(3,'{"at":"2026-01-01T00:00:02.000000Z","body":{"absent":[],"decision":{"budget":0.3,"eliminated":[],"objective":0.3,"payoffs":[0.15,0.075,0.07499999999999998],"retained":["ann","bob","cyd"],"shares":[0.5,0.25,0.25],"transfers":[-0.15,-0.02500000000000001,0.175]},"grace":false,"inputs":[{"client":"ann","contribution":0.5,"cost":null,"profit":0.3,"sample_count":100,"signature":"7a1963a12b41eabc0344762a02949ea4ecd7adeb72e65fb2d0ddd9f99d96e663783013f5cca2019ec163136a1e48bd587fb409b54efdc4e23a2b2ada48666a00"},{"client":"bob","contribution":0.25,"cost":null,"profit":0.1,"sample_count":101,"signature":"424c629854ce1deb27e18ac9023e1c6634e1613b94e50229b3fdfcecb9772a60b05bd9f42504c9ccb127ff01c0de4c10277f2c58a03f46f5dcef45100ec19b031d81ba2ddbf67b3a7dc08c032e957812e641669c77befa9ddecb8befc4414d1f"},{"client":"cyd","contribution":0.25,"cost":null,"profit":-0.1,"sample_count":102,"signature":null}],"round":1,"rules":{"contribution_rule":"clip","liability_cap":null,"loss_rule":"contribution","mu":"inf"},"rules_version":"1"},"format":"commonweal.entry/1","kind":"round","number":3,"postings":[["accrued/ann","15000"],["accrued/bob","7500"],["accrued/cyd","7500"],["model-potential","-30000"]],"previous":"d8417d9303c2325b52ffe6de334890dc5531cabd90d2e83713b9ec8667c0f9bb"}','33ab8a9fc87008ba05b3a144a5aeb4def41a968477badb3ea976c573bf99ddd0','d4beb7a365b883fd572d5267658d45775febb1cec79d59d97fbbb7b6c238ca98fc8ee9e66c23d8b8c94015cd4cc3f2d0420a412cddf378907d97b95cf78fd907');
INSERT INTO "commonweal_entries" VALUES(4,'{"at":"2026-01-01T00:00:03.000000Z","body":{"amount":"1000","reference":"invoice 1"},"format":"commonweal.entry/1","kind":"realisation","number":4,"postings":[["model-income","-1000"],["clients/ann","500"],["clients/bob","250"],["clients/cyd","250"]],"previous":"33ab8a9fc87008ba05b3a144a5aeb4def41a968477badb3ea976c573bf99ddd0"}','f9ab091dc1eac1512ba5fab6dd54e88f4f74056c1b3e25bbee68c109820b0ac5','620a31d4856c421adb0a95e8c3620779b285f19d353e4c6e59ab98c49832808fd1521a87ea6fb9ff6524265ff57c958de11289614966bc5ff212cbc7be940107');
INSERT INTO "commonweal_entries" VALUES(5,'{"at":"2026-01-01T00:00:04.000000Z","body":{"entry":3,"reason":"figures came late"},"format":"commonweal.entry/1","kind":"reversal","number":5,"postings":[["accrued/ann","-15000"],["accrued/bob","-7500"],["accrued/cyd","-7500"],["model-potential","30000"]],"previous":"f9ab091dc1eac1512ba5fab6dd54e88f4f74056c1b3e25bbee68c109820b0ac5"}','31532a6c4382b6b5493a569bfd37512c5b4959d1ec6558e554e8873a773bc9d0','649744c6ccc86e7ce0bf359d708ef58c97c14974a7eb3f29990a5f58c522f3346180e0e2681b8b464970a114e87d069c800ec368cdf73da5ebad4fdee2d8f806');
INSERT INTO "commonweal_entries" VALUES(6,'{"at":"2026-01-01T00:00:05.000000Z","body":{"absent":[],"decision":{"budget":0.38,"eliminated":[],"objective":0.38,"payoffs":[0.2375,0.1425,0],"retained":["ann","bob","cyd"],"shares":[0.625,0.37499999999999994,0],"transfers":[-0.05249999999999999,0.012499999999999983,0.04]},"grace":false,"inputs":[{"client":"ann","contribution":0.5,"cost":null,"profit":0.29,"sample_count":100,"signature":"66334592b2cd9e671c8a43e8924174d45644da04be8952f1089b44ae3d8c8846322363225eb43b1d5f1df0c7534ec238e480151f7f245feef793b694be28f401"},{"client":"bob","contribution":0.3,"cost":null,"profit":0.13,"sample_count":101,"signature":"44fd87b8183c47c9e544b766ce8af1d617e494924e9d8482062aeef040b471bf8edb9424283473b88ef6e8ccdfd0c6b60d01e4d1c0f15ab62e6c8b482daa1466bd8fd6b9205bab897da64c2a5f83dc951b125596c7551763078e8bc25eb520a1"},{"client":"cyd","contribution":-0.1,"cost":null,"profit":-0.04,"sample_count":102,"signature":null}],"round":1,"rules":{"contribution_rule":"clip","liability_cap":null,"loss_rule":"contribution","mu":"inf"},"rules_version":"1"},"format":"commonweal.entry/1","kind":"round","number":6,"postings":[["accrued/ann","23750"],["accrued/bob","14250"],["accrued/cyd","0"],["model-potential","-38000"]],"previous":"31532a6c4382b6b5493a569bfd37512c5b4959d1ec6558e554e8873a773bc9d0"}','4d31653071dfb36a188953ceefa965139248d7dc960d8b6d0f838c36f6d8534e','f03f4327a1e9583d880ec793a6ccf6e0e2088ad2de28183cbd4c3c947f9e198cb88a9b67d697a64a99a079d5b922d9cd1bd4b1d7dcd4448338ba4b000e27980f');
INSERT INTO "commonweal_entries" VALUES(7,'{"at":"2026-01-01T00:00:06.000000Z","body":{"amount":"100","reference":"invoice 2"},"format":"commonweal.entry/1","kind":"realisation","number":7,"postings":[["model-income","-100"],["clients/ann","63"],["clients/bob","37"]],"previous":"4d31653071dfb36a188953ceefa965139248d7dc960d8b6d0f838c36f6d8534e"}','2799ffbe1359114aab3cdfd617e599633e368e71c128ac47435d67976627ee1f','bcfba0f3d4aa072a19a1b5c1d06e5c30f48e26989eaaa81564a0ea9af5d38a54ad30919cb9b18eefbfc7c29bb697802089b6c818528f3126d1189d282d981202');
INSERT INTO "commonweal_entries" VALUES(8,'{"at":"2026-01-01T00:00:07.000000Z","body":{"entry":4,"reason":"booked too early"},"format":"commonweal.entry/1","kind":"reversal","number":8,"postings":[["model-income","1000"],["clients/ann","-500"],["clients/bob","-250"],["clients/cyd","-250"]],"previous":"2799ffbe1359114aab3cdfd617e599633e368e71c128ac47435d67976627ee1f"}','755877cd84ce2d5be8df0b861a41753d258300c2046c2753baa623a1706105da','d4633e7ed2b66a99c17ae7ecf4ce6fcf3c25e0e3de090a2b25204e47177cac27b51270b2bf5f84045c5613e3f727e29358a80a44ce9442ab94630a0f5a814f09');
INSERT INTO "commonweal_entries" VALUES(9,'{"at":"2026-01-01T00:00:08.000000Z","body":{"operator":"50056ef4f33ad7fcb2d475f896c371225176aeb340547ceb8f204e7b5b3ca9db","proof":"708b0996666b265502f58668c9bd5d4cc6a2a636ef317d10e07b7fd856dc16fba3a2fc0cb0a7b97d9c8394b8d314fac89cd6b6eec6f1007a692814e53ea8e607"},"format":"commonweal.entry/1","kind":"key-rotation","number":9,"postings":[],"previous":"755877cd84ce2d5be8df0b861a41753d258300c2046c2753baa623a1706105da"}','11c4f6ca5c7a27e6c4d58db99720eafc9f61b4c47db15a3fad9a50855d12dd37','655a6fc12807026251714df14ec1aa97cc50d7ce4045d534cb31dbcde841f755acf2482953900badb0da2ca630a99be4f4e7278d1fdcd1c0c1922283c819e80a');
INSERT INTO "commonweal_entries" VALUES(10,'{"at":"2026-01-01T00:00:09.000000Z","body":{"absent":["bob"],"decision":{"budget":0.18,"eliminated":["cyd"],"objective":0.17204545454545453,"payoffs":[0.18],"retained":["ann"],"shares":[1],"transfers":[0]},"grace":false,"inputs":[{"client":"ann","contribution":0.44,"cost":null,"profit":0.18,"sample_count":100,"signature":"01d20e8eae7d11902a7e9f73ae45f76db6a49b67c9ef413564db3ef0b58322c5c104953edf6ed24e8d36ba2867705f58ba457c95678ae987811674763d243c07"},{"client":"cyd","contribution":0.07,"cost":null,"profit":-0.3,"sample_count":101,"signature":null}],"round":2,"rules":{"contribution_rule":"clip","liability_cap":null,"loss_rule":"contribution","mu":0.05},"rules_version":"1"},"format":"commonweal.entry/1","kind":"round","number":10,"postings":[["accrued/ann","18000"],["model-potential","-18000"]],"previous":"11c4f6ca5c7a27e6c4d58db99720eafc9f61b4c47db15a3fad9a50855d12dd37"}','28d9b179eea1bbe2843ba72194162c8e9a5d77c5acc1296045497d84c8fa24f7','5d88711465070ad42e54913466f0c8d56c537f0b6d162a65a3ea81066a5dbf4140f2a731572abbe9ac6fa9ca77062e359da45bbd220c069241eb8820aca06b0a');
CREATE TABLE commonweal_postings (
	entry BIGINT NOT NULL, 
	position INTEGER NOT NULL, 
	account TEXT NOT NULL, 
	amount BIGINT NOT NULL, 
	PRIMARY KEY (entry, position), 
	FOREIGN KEY(entry) REFERENCES commonweal_entries (number)
);
INSERT INTO "commonweal_postings" VALUES(3,0,'accrued/ann',15000);
INSERT INTO "commonweal_postings" VALUES(3,1,'accrued/bob',7500);
INSERT INTO "commonweal_postings" VALUES(3,2,'accrued/cyd',7500);
INSERT INTO "commonweal_postings" VALUES(3,3,'model-potential',-30000);
INSERT INTO "commonweal_postings" VALUES(4,0,'model-income',-1000);
INSERT INTO "commonweal_postings" VALUES(4,1,'clients/ann',500);
INSERT INTO "commonweal_postings" VALUES(4,2,'clients/bob',250);
INSERT INTO "commonweal_postings" VALUES(4,3,'clients/cyd',250);
INSERT INTO "commonweal_postings" VALUES(5,0,'accrued/ann',-15000);
INSERT INTO "commonweal_postings" VALUES(5,1,'accrued/bob',-7500);
INSERT INTO "commonweal_postings" VALUES(5,2,'accrued/cyd',-7500);
INSERT INTO "commonweal_postings" VALUES(5,3,'model-potential',30000);
INSERT INTO "commonweal_postings" VALUES(6,0,'accrued/ann',23750);
INSERT INTO "commonweal_postings" VALUES(6,1,'accrued/bob',14250);
INSERT INTO "commonweal_postings" VALUES(6,2,'accrued/cyd',0);
INSERT INTO "commonweal_postings" VALUES(6,3,'model-potential',-38000);
INSERT INTO "commonweal_postings" VALUES(7,0,'model-income',-100);
INSERT INTO "commonweal_postings" VALUES(7,1,'clients/ann',63);
INSERT INTO "commonweal_postings" VALUES(7,2,'clients/bob',37);
INSERT INTO "commonweal_postings" VALUES(8,0,'model-income',1000);
INSERT INTO "commonweal_postings" VALUES(8,1,'clients/ann',-500);
INSERT INTO "commonweal_postings" VALUES(8,2,'clients/bob',-250);
INSERT INTO "commonweal_postings" VALUES(8,3,'clients/cyd',-250);
INSERT INTO "commonweal_postings" VALUES(10,0,'accrued/ann',18000);
INSERT INTO "commonweal_postings" VALUES(10,1,'model-potential',-18000);
CREATE TABLE commonweal_schema (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT commonweal_schema_pkc PRIMARY KEY (version_num)
);
INSERT INTO "commonweal_schema" VALUES('0001');
COMMIT;
