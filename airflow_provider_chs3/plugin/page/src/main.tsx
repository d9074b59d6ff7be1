// What Airflow's UI imports: a component for each place where it shows the page, in its own React, router and theme.
import { ChakraProvider, type SystemContext } from "@chakra-ui/react";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";
import { useLocation, useNavigate } from "react-router-dom";
import { App } from "./app";
import type { Place } from "./model/place";
import { systemOf } from "./ui/theme";

declare global {
  var ChakraUISystem: SystemContext | undefined;
}

// Outside the component, which Airflow may create again.
const client = new QueryClient({ defaultOptions: { queries: { retry: 1, refetchOnWindowFocus: true } } });

let isMountedForGood = false;

// Airflow mounts the page through React.lazy until the address changes for the first time, and from then on without it,
// which makes it another component: all that is scrolled or focused would be gone. So the page has that done at once.
function useMountForGood() {
  const navigate = useNavigate();
  const location = useLocation();
  useEffect(() => {
    if (!isMountedForGood) {
      isMountedForGood = true;
      void navigate(location, { replace: true, preventScrollReset: true });
    }
  }, [navigate, location]);
}

export default function AirflowPlugin(place: Place) {
  useMountForGood();
  const host = globalThis.ChakraUISystem;
  const system = useMemo(() => systemOf(host), [host]);
  return (
    <ChakraProvider value={system}>
      <QueryClientProvider client={client}>
        <App place={place} />
      </QueryClientProvider>
    </ChakraProvider>
  );
}
