// The page that an address names.

import { AuditLogPage } from '../pages/audit.js';
import { ErrorPage } from '../pages/errors/error.js';
import { ErrorsPage } from '../pages/errors/errors.js';
import { JobPage } from '../pages/jobs/job.js';
import { JobsPage } from '../pages/jobs/jobs.js';
import { KeysPage } from '../pages/keys.js';
import { OverviewPage } from '../pages/overview/overview.js';
import { TenantPage } from '../pages/tenants/tenant.js';
import { TenantsPage } from '../pages/tenants/tenants.js';
import { Page } from '../parts/page.js';
import { Empty, Loading } from '../parts/states.js';
import { addressOf, type PageName, type Route } from '../state/router.js';

export const PAGE_TITLES: Readonly<Record<PageName, string>> = {
  overview: 'Overview',
  jobs: 'Jobs',
  job: 'Job',
  keys: 'Keys',
  tenants: 'Tenants',
  tenant: 'Tenant',
  errors: 'Errors',
  error: 'Error',
  audit: 'Audit log',
  login: 'Sign in',
};

export function RoutedPage({ route: { page, parameters } }: { route: Route }) {
  switch (page) {
    case 'overview':
      return <OverviewPage />;
    case 'jobs': {
      const [tenant, state] = [parameters.get('tenant') ?? null, parameters.get('state') ?? null];
      // Another filter is another list.
      return <JobsPage key={`${tenant} ${state}`} tenant={tenant} state={state} />;
    }
    case 'job':
      return <JobPage name={parameters.get('name') ?? ''} />;
    case 'keys':
      return <KeysPage />;
    case 'tenants':
      return <TenantsPage />;
    case 'tenant':
      return <TenantPage name={parameters.get('name') ?? ''} />;
    case 'errors':
      return <ErrorsPage />;
    case 'error':
      return <ErrorPage reason={parameters.get('reason') ?? ''} />;
    case 'audit':
      return <AuditLogPage />;
    case 'login':
      return <Loading />;
    case null:
      return (
        <Page title="Not found">
          <Empty title="The console has no page at this address">
            <a href={addressOf('overview')}>Go to the overview</a>
          </Empty>
        </Page>
      );
  }
}
